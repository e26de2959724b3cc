"""regard train: what is read, where it may write, and how a run goes on."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.command import refused


def test_steps_on_the_command_line_take_the_place_of_epochs(call, tmp_path: Path, tiny) -> None:
    (tmp_path / "mine.yaml").write_text(
        "data: {train: sort, valid: sort, test: sort}\ntrain: {epochs: 2, batch_size: 8}"
    )
    assert call("train", "mine.yaml", *tiny).code == 0
    assert (tmp_path / "runs/mine/checkpoints/step-6").is_dir()


def test_lines_left_out_are_counted(call, tmp_path: Path, tiny_on_files) -> None:
    (tmp_path / "pairs.tsv").write_text("1 2\t2 1\nbad\n3 4\t4 3\n\t\n")
    mine = ["-s", "data.train=pairs.tsv", "-s", "data.valid=pairs.tsv", "-s", "data.test=pairs.tsv"]
    refused(call("train", "sort", *tiny_on_files, *mine), "pairs.tsv:2: 1 column where 2")
    result = call("train", "sort", *tiny_on_files, *mine, "-s", "data.on_bad_line=skip")
    assert result.code == 0, result.err
    assert "pairs.tsv: 2 lines were left out: 1 where there is 1 column, not 2" in result.err
    assert "2 lines were left out" in call("evaluate", "runs/sort", "--data", ".").err


def test_a_run_on_files_predicts_away_from_them(call, tmp_path: Path, tiny_on_files) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "pairs.tsv").write_text("a </s> b\tb a\nc a$x$\ta  c \n")
    (data / "test.tsv").write_text("a never\tseen a\n")
    mine = ["-s", "data.train=pairs.tsv", "-s", "data.valid=pairs.tsv", "-s", "data.test=test.tsv"]
    result = call("train", "sort", *tiny_on_files, *mine, "--data", data)
    assert result.code == 0, result.err
    assert "data.train: 1 of 9 tokens are not in the vocabulary" in result.err
    assert "2 of 4 tokens" in call("evaluate", "runs/sort").err
    shutil.rmtree(data)
    assert call("predict", "runs/sort", stdin="a b\n").code == 0
    refused(call("predict", "runs/sort", stdin="a </s>\n"), "'</s>' is not in the vocabulary")
    refused(call("evaluate", "runs/sort"), "data.test='test.tsv' is neither")


def test_resume_keeps_what_is_not_given_and_refuses_other_data(
    call, tmp_path, tiny_on_files
) -> None:
    (tmp_path / "pairs.tsv").write_text("1 2\t2 1\n3 4\t4 3\n")
    mine = ["-s", "data.train=pairs.tsv", "-s", "data.valid=pairs.tsv", "-s", "data.test=pairs.tsv"]
    assert call("train", "sort", *tiny_on_files, *mine).code == 0
    longer = call("train", "sort", "--resume", "-s", "train.steps=8")
    assert longer.code == 0, longer.err
    assert "The cosine schedule now ends at another step" in longer.err
    assert (tmp_path / "runs/sort/checkpoints/step-8").is_dir()
    refused(call("train", "sort", "--resume", "-s", "train.steps=3"), "at step 8 already")
    refused(call("train", "copy", "--out", "runs/sort", "--resume"), "is a run of 'sort'")
    other = call("train", "sort", "--resume", "--precision", "bf16", "-s", "train.steps=9")
    assert "Resumed with cpu, bf16 where it was cpu, fp32" in other.err
    (tmp_path / "pairs.tsv").write_text("1 2\t2 1\n")
    refused(call("train", "sort", "--resume", "-s", "train.steps=12"), "its file has changed")


def test_a_bad_line_anywhere_is_found_before_training(call, tmp_path: Path, tiny) -> None:
    (tmp_path / "bad.tsv").write_text("1 2\n")
    for split in ("valid", "test"):
        result = call("train", "sort", *tiny, "-s", f"data.{split}=bad.tsv")
        refused(result, "bad.tsv:1: 1 column where 2")
    assert not (tmp_path / "runs").exists()


def test_two_processes_do_not_train_into_one_folder(call, tiny_run, tmp_path, tiny) -> None:
    from regard.runs.lock import locked

    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    with locked(run):
        refused(call("train", "sort", "--out", run, "--resume"), "is being trained by another")
    assert call("train", "sort", "--out", run, "--resume").code == 0


def test_keys_lists_every_key_with_its_meaning(call) -> None:
    result = call("train", "--keys")
    assert result.code == 0
    for key in ("model.n_heads", "train.schedule", "decode.length_penalty", "seed"):
        assert key in result.out


def test_a_folder_that_holds_something_is_not_overwritten(call, tiny_run, tmp_path, tiny) -> None:
    before = sorted(path.stat().st_mtime_ns for path in tiny_run.rglob("*"))
    refused(call("train", "sort", "--out", "/dev/null/run", *tiny), "could not be written")
    refused(call("train", "sort", "--out", tiny_run, *tiny), "already holds a run", "--resume")
    refused(
        call("train", "sort", "--out", tiny_run, *tiny, "-s", "seed=9", "--resume"),
        "was started with another seed",
    )
    assert before == sorted(path.stat().st_mtime_ns for path in tiny_run.rglob("*"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes").touch()
    refused(call("train", "sort", "--out", "full"), "full exists and is not empty")
    refused(call("train", "sort", "--resume"), "runs/sort is no run directory")


def test_a_finished_run_resumes_to_itself_and_further(call, tiny_run, tmp_path, tiny) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    before = (run / "checkpoints/step-6/model.safetensors").read_bytes()
    assert call("train", "sort", "--out", run, *tiny, "--resume").code == 0
    assert (run / "checkpoints/step-6/model.safetensors").read_bytes() == before
    assert call("train", "sort", "--out", run, *tiny, "-s", "train.steps=8", "--resume").code == 0
    assert (run / "checkpoints/step-8").is_dir()


def test_resuming_from_a_broken_checkpoint_is_refused(call, tiny_run, tmp_path, tiny) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    weights = run / "checkpoints/step-6/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    resume = ("train", "sort", "--out", run, *tiny, "--resume")
    refused(call(*resume), "step-6 is damaged", "go on from step 4")
    shutil.rmtree(run / "checkpoints/step-6")
    assert call(*resume).code == 0
    shutil.rmtree(run / "checkpoints")
    refused(call(*resume), "There is no checkpoint in")


def test_a_disk_that_fills_up_ends_in_one_sentence(tmp_path: Path, tiny) -> None:
    """A limit on file sizes stands in for the full disk; it takes a process of its own."""
    program = (
        "import resource, sys; from regard.commands.app import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000));"
        "sys.argv = ['regard', *sys.argv[1:]]; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "train", "sort", "--out", "run", *tiny],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.returncode == 2, result.stderr
    message = result.stderr.strip().splitlines()
    assert len(message) == 1, message
    assert "step-0 could not be written: " in message[0]
    assert "make room and try again" in message[0]
    assert list(tmp_path.iterdir()) == []  # a run that cannot be resumed is not left behind
