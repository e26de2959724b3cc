"""The files of a run directory: lost, left over, forged, or not for this user."""

import json
import shutil
from pathlib import Path

import pytest

import regard
from regard.runs.directory import read_config, read_metrics
from regard.runs.lock import locked
from regard.runs.trainer import train
from regard.system.errors import UserError
from regard.system.files import sha256
from regard.tasks.labels import Labels
from regard.training.checkpoint import newest_checkpoint
from tests.permissions import shared_folder, without_privileges

OTHER_JSON = ["", "[]", "3", "null", '"x"', '{"a": []}', '{"a": ' * 1000, "[" * 1000, "9" * 5000]
"""JSON of another shape, or none."""


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, to be changed."""
    return Path(shutil.copytree(tiny_run, tmp_path / "copy"))


def resume(run: Path) -> list[str]:
    told: list[str] = []
    train(read_config(run), run, resume=True, say=told.append)
    return told


def test_lost_best_weights_are_taken_from_the_checkpoint_of_the_same_step(run: Path) -> None:
    before = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").unlink()
    (message,) = resume(run)
    assert message == (
        f"{run}/model.safetensors, the best weights so far, was gone: they are taken from "
        f"{run}/checkpoints/step-6/model.safetensors."
    )
    assert (run / "model.safetensors").read_bytes() == before


def test_the_last_weights_are_not_called_the_best_in_silence(run: Path) -> None:
    (run / "model.safetensors").unlink()
    (run / "metrics.jsonl").unlink()  # so that nobody knows which step was the best
    lost, last = resume(run)
    assert "is gone, and there is no copy of them" in lost
    assert last == (
        f"No evaluation has chosen the best weights: {run}/model.safetensors has those of the "
        f"last step, 6."
    )
    assert regard.load(run).predict(["1 2"])


def test_what_a_killed_process_left_is_removed_at_the_next_start(run: Path) -> None:
    before = sorted(run.rglob("*"))
    (run / ".tmpAbC123").touch()
    (run / ".model.safetensors.12.34.part").touch()
    shutil.copytree(run / "checkpoints/step-4", run / "checkpoints/.step-2.12.34.part")
    resume(run)
    assert sorted(run.rglob("*")) == before


@pytest.mark.parametrize("text", OTHER_JSON)
def test_a_forged_manifest_is_refused(run: Path, text: str) -> None:
    (run / "checkpoints/step-6/manifest.json").write_text(text)
    with pytest.raises(UserError, match=r"damaged: manifest.json .* go on from step 4"):
        resume(run)


def test_a_manifest_names_no_file_elsewhere(run: Path) -> None:
    folder = run / "checkpoints/step-6"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["../step-4/progress.json"] = sha256(run / "checkpoints/step-4/progress.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"damaged: manifest.json"):
        newest_checkpoint(run / "checkpoints")


@pytest.mark.parametrize("text", [*OTHER_JSON, '{"step": "6"}', '{"step": 6, "seen": {"a": 1}}'])
def test_a_forged_progress_is_refused(run: Path, text: str) -> None:
    folder = run / "checkpoints/step-6"
    (folder / "progress.json").write_text(text)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["progress.json"] = sha256(folder / "progress.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"progress.json: .* another version of Regard"):
        newest_checkpoint(run / "checkpoints")


@pytest.mark.parametrize("text", [*OTHER_JSON, '{"step": 1, "lr": 0, "train": {}, "valid": []}'])
def test_a_forged_line_of_metrics_is_refused_with_its_number(run: Path, text: str) -> None:
    log = run / "metrics.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([lines[0], text, *lines[1:]]) + "\n")
    with pytest.raises(UserError, match=r"metrics.jsonl:2: .*Remove the line"):
        read_metrics(run)


def test_a_line_of_metrics_that_a_kill_cut_short_is_left_out(run: Path) -> None:
    metrics = read_metrics(run)
    assert [line["step"] for line in metrics] == [3, 6]
    assert metrics[0]["epoch"] == 0
    with (run / "metrics.jsonl").open("a") as log:
        log.write('{"step": 9, "lr"')
    assert read_metrics(run) == metrics


@pytest.mark.parametrize("text", [*OTHER_JSON, '["a", 1]', '["a", "a"]', '["a"]'])
def test_forged_labels_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"labels.json is not a list of classes"):
        Labels.read({"labels.json": text}, "labels.json")


@pytest.mark.parametrize(
    "name",
    [
        "config.yaml",
        "tokenizer.json",
        "model.safetensors",
        "checkpoints/step-6/manifest.json",
        "checkpoints/step-6/progress.json",
        "checkpoints/step-6/optimizer.safetensors",
    ],
)
def test_a_file_that_may_not_be_read_is_not_called_damaged(tiny_run: Path, name: str) -> None:
    with shared_folder() as folder:
        run = Path(shutil.copytree(tiny_run, folder / "run"))
        (run / name).chmod(0)
        with without_privileges(), pytest.raises(UserError) as told:
            newest_checkpoint(run / "checkpoints") if "step" in name else regard.load(run)
    assert str(told.value) == f"{run / name} cannot be read: Permission denied."


def test_a_folder_that_may_not_be_entered_is_told(tiny_run: Path) -> None:
    with shared_folder() as folder:
        run = Path(shutil.copytree(tiny_run, folder / "run"))
        run.chmod(0o600)
        with without_privileges(), pytest.raises(UserError, match="cannot be read: Permission"):
            regard.load(run)


def test_only_the_locks_own_failure_means_another_process(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError, match="a full pipe"), locked(tmp_path):
        raise BlockingIOError("a full pipe")
    with (
        locked(tmp_path),
        pytest.raises(UserError, match="is being trained by another process"),
        locked(tmp_path),
    ):
        pass
