"""Checkpoints: whole or not there, the newest kept, damage refused by name."""

import json
import resource
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from regard.system.errors import UserError
from regard.system.files import sha256, write_text
from regard.system.tensors import read_tensors, weights, write_tensors
from regard.training.checkpoint import FILES, newest_checkpoint, save_checkpoint, saved_steps
from regard.training.optimisers import optimiser_tensors


def test_a_folder_that_is_gone_is_not_made_again_by_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checkpoints could not be written: No such file"):
        checkpoint(tmp_path / "run" / "checkpoints", 1)
    assert list(tmp_path.iterdir()) == []


def test_an_old_checkpoint_is_never_there_by_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        checkpoint(tmp_path, step)

    def killed(path: Path, **options) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint(tmp_path, 3)
    assert sorted(saved_steps(tmp_path)) == [2, 3]


def test_an_optimiser_of_another_model_is_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path, 1)
    folder = tmp_path / "step-1"
    state, _ = read_tensors(folder / "optimizer.safetensors")
    state["weight/exp_avg"] = state["weight/exp_avg"][:5]
    write_tensors(folder / "optimizer.safetensors", state)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["optimizer.safetensors"] = sha256(folder / "optimizer.safetensors")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"optimizer.safetensors does not fit: weight/exp_avg"):
        load_newest(tmp_path)


def checkpoint(folder: Path, step: int, *, keep: int = 2) -> torch.nn.Linear:
    model = torch.nn.Linear(200, 200)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.randn(1, 200)).sum().backward()
    optimiser.step()
    save_checkpoint(
        folder,
        step,
        tensors={
            "model": weights(model),
            "optimizer": optimiser_tensors(optimiser, model),
            "carried": {"state.0": torch.ones(3)},
        },
        progress={"step": step},
        metadata={},
        keep=keep,
    )
    return model


def load_newest(folder: Path) -> dict:
    model = torch.nn.Linear(200, 200)
    newest = newest_checkpoint(folder)
    newest.load(model=model, optimiser=torch.optim.Adam(model.parameters()), metadata={})
    return asdict(newest.progress)


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    for step in (2, 10, 9, 30):
        checkpoint(tmp_path, step)
    assert sorted(saved_steps(tmp_path)) == [10, 30]
    assert load_newest(tmp_path)["step"] == 30


@pytest.mark.parametrize("name", [*FILES, "carried.safetensors"])
def test_a_truncated_checkpoint_is_refused_and_the_earlier_one_named(tmp_path, name: str) -> None:
    checkpoint(tmp_path, 1)
    checkpoint(tmp_path, 2)
    file = tmp_path / "step-2" / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match=rf"damaged: {name} .* go on from step 1"):
        load_newest(tmp_path)


def test_a_manifest_that_leaves_out_a_file_is_refused(tmp_path: Path) -> None:
    """What is carried from batch to batch would begin anew, without a word."""
    checkpoint(tmp_path, 1)
    file = tmp_path / "step-1" / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["carried.safetensors"]
    file.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"damaged: manifest.json is not what was saved"):
        load_newest(tmp_path)


def test_a_missing_manifest_or_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkpoint"):
        load_newest(tmp_path)
    checkpoint(tmp_path, 1)
    (tmp_path / "step-1" / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"damaged: manifest.json .* train the run again"):
        load_newest(tmp_path)


def test_a_full_disk_breaks_nothing_that_was_written(tmp_path: Path) -> None:
    """The size limit of a process stands in for the disk: writes past it fail the same way."""
    checkpoint(tmp_path, 1)
    write_text(tmp_path / "notes.txt", "before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(UserError, match=r"step-2 could not be written: .*untouched"):
            checkpoint(tmp_path, 2)
        with pytest.raises(UserError, match=r"notes.txt could not be written: File too large"):
            write_text(tmp_path / "notes.txt", "x" * 60_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "notes.txt").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "step-1"]
    assert load_newest(tmp_path)["step"] == 1
