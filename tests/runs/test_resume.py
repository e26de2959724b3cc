"""A run stopped anywhere and resumed ends in the same bits as one never stopped."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from regard.training.checkpoint import saved_steps
from tests.conftest import as_options
from tests.forks import Forks

SETTINGS = [
    "train.steps=120",
    "train.eval_every=30",
    "train.save_every=7",
    "train.metric=loss",
    "train.accumulate=2",
    "model.d_model=16",
    "model.n_heads=2",
    "model.d_ff=32",
    "model.dropout=0.2",
]
MANY_EPOCHS = ["data.train=pairs.tsv", "data.valid=pairs.tsv", "train.batch_size=16"]
ONE_EPOCH = ["train.batch_tokens=128", "data.epoch_size=3000"]


def start(
    folder: Path, out: str, settings: list[str], forks: Forks, *, resume: bool = False
) -> subprocess.Popen:
    return subprocess.Popen(
        [forks.regard, "train", "sort", "--out", out]
        + as_options(SETTINGS + settings)
        + (["--resume"] if resume else []),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "2" if "train.shares=2" in settings else "1"},
    )


def stop_after(process: subprocess.Popen, run: Path, step: int, how: signal.Signals) -> str:
    """Wait for a checkpoint of this step or a later one, then send the signal."""
    deadline = time.monotonic() + 120
    while max(saved_steps(run / "checkpoints"), default=0) < step:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(how)
    return process.communicate()[1]


def final_bits(run: Path) -> dict[str, bytes]:
    last = run / "checkpoints" / "step-120"
    return {
        "best": (run / "model.safetensors").read_bytes(),
        "weights": (last / "model.safetensors").read_bytes(),
        "optimiser": (last / "optimizer.safetensors").read_bytes(),
    }


def evaluations(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


AVERAGED = [*ONE_EPOCH, "train.ema=0.9", "train.average=3", "train.average_of=best"]
SHARED_OUT = [*MANY_EPOCHS, "train.optimizer=muon", "train.shares=2", "model.attention_dropout=0.1"]


@pytest.mark.parametrize(
    "settings",
    [ONE_EPOCH, MANY_EPOCHS, AVERAGED, SHARED_OUT],
    ids=["one-epoch", "many-epochs", "averaged", "muon, shared out"],
)
def test_a_killed_run_resumes_to_the_same_bits(
    tmp_path: Path, settings: list[str], forks: Forks
) -> None:
    lines = [f"{i % 10} {i % 7} {i % 3}\t{i % 3} {i % 7} {i % 10}\n" for i in range(90)]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    whole = start(tmp_path, "whole", settings, forks)
    assert whole.wait() == 0, whole.stderr.read()

    run = tmp_path / "stopped"
    stop_after(start(tmp_path, "stopped", settings, forks), run, 21, signal.SIGKILL)
    stop_after(start(tmp_path, "stopped", settings, forks, resume=True), run, 49, signal.SIGKILL)
    stopped = start(tmp_path, "stopped", settings, forks, resume=True)
    messages = stop_after(stopped, run, 77, signal.SIGTERM)
    assert stopped.returncode == 143
    assert "Continue with:" in messages
    assert "--resume" in messages.splitlines()[-1]
    last = start(tmp_path, "stopped", settings, forks, resume=True)
    assert last.wait() == 0, last.stderr.read()

    assert final_bits(run) == final_bits(tmp_path / "whole")
    assert evaluations(run) == evaluations(tmp_path / "whole")
    assert ("averaged" in evaluations(run)[-1]) == (settings == AVERAGED)
    assert not list(run.rglob(".*.part"))


def test_ctrl_c_saves_the_step_it_was_at_and_says_how_to_go_on(
    tmp_path: Path, forks: Forks
) -> None:
    run = tmp_path / "run"
    settings = [*ONE_EPOCH, "train.save_every=100000", "train.steps=100000"]
    process = start(tmp_path, "run", settings, forks)
    deadline = time.monotonic() + 120
    while not (run / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    messages = process.communicate()[1]
    assert process.returncode == 130
    assert "Stopped by SIGINT; a checkpoint is saved. Continue with:" in messages
    step = max(saved_steps(run / "checkpoints"))
    assert step >= 30
    progress = json.loads((run / "checkpoints" / f"step-{step}" / "progress.json").read_text())
    assert progress["step"] == step
