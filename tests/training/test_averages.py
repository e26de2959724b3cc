"""Averages of weights: what is kept, and what it is worth."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from regard.data.batches import BatchStream
from regard.data.examples import InMemory
from regard.system.tensors import weights
from regard.training.averages import MovingAverage, Snapshots, set_weights
from regard.training.callbacks import Evaluate
from regard.training.gradients import WholeBatch
from regard.training.loop import Loop, Progress
from regard.training.loss import Sums
from tests.command import refused


def loop_at(step: int, value: float) -> Loop:
    model = torch.nn.Linear(1, 1)
    set_weights(model, {name: torch.full_like(old, value) for name, old in weights(model).items()})
    return Loop(
        model,
        BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1),
        WholeBatch(lambda model, batch, carried: Sums()),
        torch.optim.SGD(model.parameters()),
        lambda step: 0.0,
        10,
        progress=Progress(step=step),
    )


def test_the_moving_average_by_hand_and_in_place() -> None:
    loop = loop_at(0, 1.0)
    average = MovingAverage(loop.model, 0.5)
    expected = 1.0
    for step, value in enumerate((3.0, -2.0, 7.0), start=1):
        loop.progress.step = step
        set_weights(
            loop.model, {name: torch.full_like(w, value) for name, w in average.tensors.items()}
        )
        average.after_step(loop)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    with average.in_place(loop.model):
        torch.testing.assert_close(loop.model.bias.data, torch.tensor([expected]))
    assert loop.model.bias.item() == 7.0


def snapshots_of(folder: Path, choice: str) -> tuple[list[str], float]:
    kept = Snapshots(folder, 2, choice, {})
    progress = Progress()
    for step, value, score in ((1, 10.0, 0.9), (2, 20.0, 0.1), (3, 40.0, 0.5), (4, 80.0, 0.2)):
        loop = loop_at(step, value)
        loop.progress.snapshots = progress.snapshots
        kept.take(loop, [score, 0.0])
        progress = loop.progress
    return sorted(path.name for path in folder.iterdir()), kept.mean(loop)["bias"].item()


def test_the_last_or_the_best_snapshots_are_kept_and_averaged(tmp_path: Path) -> None:
    last = snapshots_of(tmp_path / "last", "last")
    assert last == (["step-3.safetensors", "step-4.safetensors"], 60.0)
    best = snapshots_of(tmp_path / "best", "best")
    assert best == (["step-1.safetensors", "step-3.safetensors"], 25.0)


def test_a_lost_snapshot_is_told_at_the_next_evaluation_and_left_out(tmp_path: Path) -> None:
    told: list[str] = []
    kept = Snapshots(tmp_path, 3, "last", {}, told.append)
    progress = Progress()
    for step, value in ((1, 10.0), (2, 20.0), (3, 40.0)):
        loop = loop_at(step, value)
        loop.progress.snapshots = progress.snapshots
        if step == 3:
            (tmp_path / "step-1.safetensors").unlink()
        kept.take(loop, [0.0])
        progress = loop.progress
    assert told == [
        f"{tmp_path}: the weights of step 1 are gone, and will not be part of the average."
    ]
    assert kept.mean(loop)["bias"].item() == 30.0


def test_a_mean_that_is_best_is_what_is_kept(call, tiny, tmp_path: Path, monkeypatch) -> None:
    ranks = iter([[0.0], [1.0], [2.0], [3.0]])  # of three evaluations, and of the mean
    monkeypatch.setattr(Evaluate, "_rank", lambda self, valid: next(ranks))
    settings = ("-s", "train.steps=30", "-s", "train.eval_every=10", "-s", "train.average=2")
    result = call("train", "sort", *tiny, *settings, "--out", "run")
    assert result.code == 0
    assert "the mean of steps 20, 30  valid:" in result.err
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20, 30, 30]
    kept = load_file(tmp_path / "run/model.safetensors")
    snapshots = [
        load_file(tmp_path / f"run/snapshots/step-{step}.safetensors") for step in (20, 30)
    ]
    assert lines[-1]["best"]
    for name, value in kept.items():
        torch.testing.assert_close(value, (snapshots[0][name] + snapshots[1][name]) / 2)


def test_impossible_averages_are_refused(call, tiny) -> None:
    refused(call("train", "sort", *tiny, "-s", "train.ema=1"), "train.ema=1")
    refused(call("train", "sort", *tiny, "-s", "train.average=0"), "train.average=0")
    refused(
        call("train", "sort", *tiny, "-s", "train.average_of=first"),
        "average_of='first' is not one of last, best",
    )
