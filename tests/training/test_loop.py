"""The loop and what happens beside it."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import torch

import regard
from regard import config
from regard.data.batches import BatchStream
from regard.data.examples import InMemory
from regard.runs.directory import read_metrics
from regard.runs.run import Run
from regard.runs.trainer import train
from regard.system.engine import make_engine
from regard.system.errors import UserError
from regard.training.callbacks import Evaluate, StopOnSignal
from regard.training.checkpoint import saved_steps
from regard.training.gradients import WholeBatch
from regard.training.loop import Loop, Stop
from regard.training.loss import Sums
from tests.conftest import TINY, TINY_ON_FILES


def trained(path: Path, *settings: str, tiny=TINY, **options) -> tuple[Run, Stop | None]:
    return train(config.load("sort", [*tiny, *settings]), path, **options)


def test_a_run_directory_is_complete(tiny_run: Path) -> None:
    assert {path.name for path in tiny_run.iterdir()} == {
        "config.yaml",
        "tokenizer.json",
        "model.safetensors",
        "checkpoints",
        "metrics.jsonl",
    }
    assert sorted(saved_steps(tiny_run / "checkpoints")) == [4, 6]
    lines = [json.loads(line) for line in (tiny_run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [3, 6]
    assert {"lr", "train", "valid", "seconds", "epoch", "best"} <= lines[0].keys()


def test_weights_saved_and_loaded_predict_the_same(tmp_path: Path) -> None:
    made, _ = trained(tmp_path / "run")
    lines = ["3 1 2", "9 8 8 1"]
    again = regard.load(tmp_path / "run")
    assert again.predict(lines) == made.predict(lines)
    for name, weight in again.model.state_dict().items():
        assert weight.equal(made.model.state_dict()[name])


def test_two_runs_of_one_seed_are_the_same_and_of_two_are_not(tmp_path: Path) -> None:
    bits = []
    for number, seed in enumerate((5, 5, 6)):
        trained(tmp_path / str(number), f"seed={seed}")
        bits.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert bits[0] == bits[1] != bits[2]


@pytest.mark.parametrize("metric", ["token_accuracy", "loss", "bleu"])
def test_patience_stops_early_and_a_resumed_run_stays_stopped(tmp_path: Path, metric: str) -> None:
    settings = (
        "train.lr=1e-9",
        f"train.metric={metric}",
        f"data.scores={'translation' if metric == 'bleu' else 'exact'}",
        "train.patience=1",
        "train.eval_every=1",
    )
    settings += ("model.dropout=0", "train.warmup=1000000", "train.steps=50")
    _, reason = trained(tmp_path / "run", *settings)
    assert reason is not None
    assert reason.reason == f"no better {metric} in 1 evaluations"
    step = max(saved_steps(tmp_path / "run" / "checkpoints"))
    assert step < 50
    trained(tmp_path / "run", *settings, resume=True)
    assert max(saved_steps(tmp_path / "run" / "checkpoints")) == step


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_signal_in_the_step_where_patience_runs_out_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It may come before that step's evaluation, or while it is made."""
    evaluations = []

    def rank(self: Evaluate, valid: dict[str, float]) -> list[float]:
        evaluations.append(valid)
        if when == "during" and len(evaluations) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return [0.0]

    def look(self: StopOnSignal, loop: Loop) -> None:
        if when == "before" and loop.progress.step == 2 and self.received is None:
            os.kill(os.getpid(), signal.SIGTERM)
        after_step(self, loop)

    after_step = StopOnSignal.after_step
    monkeypatch.setattr(StopOnSignal, "after_step", look)
    monkeypatch.setattr(Evaluate, "_rank", rank)
    _, stop = trained(tmp_path / "run", "train.patience=1", "train.eval_every=1")
    assert stop is not None
    assert stop.signal == signal.SIGTERM
    assert max(saved_steps(tmp_path / "run" / "checkpoints")) == 2


def test_a_run_folder_that_is_gone_is_called_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rank(self: Evaluate, valid: dict[str, float]) -> list[float]:
        shutil.rmtree(tmp_path / "run")
        return [0.0]

    monkeypatch.setattr(Evaluate, "_rank", rank)
    with pytest.raises(
        UserError, match=r"No such file or directory\. The folder .* is gone"
    ) as told:
        trained(tmp_path / "run")
    assert "make room" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_epochs_are_counted_in_steps(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("1 2\t2 1\n" * 20)
    settings = [
        "data.train=pairs.tsv",
        "data.valid=pairs.tsv",
        "train.epochs=3",
        "train.batch_size=8",
    ]
    trained(tmp_path / "run", *settings, f"data.directory={tmp_path}", tiny=TINY_ON_FILES)
    assert max(saved_steps(tmp_path / "run" / "checkpoints")) == 9


@pytest.mark.parametrize("schedule", ["noam", "linear", "constant"])
def test_schedules_and_adamw_train(tmp_path: Path, schedule: str) -> None:
    settings = (f"train.schedule={schedule}", "train.optimizer=adamw", "train.weight_decay=0.1")
    made, _ = trained(tmp_path / "run", *settings)
    assert made.metrics()[-1]["lr"] >= 0


def test_bfloat16_trains_and_keeps_float32_weights(tmp_path: Path) -> None:
    engine = make_engine(device="cpu", precision="bf16")
    made, _ = trained(tmp_path / "run", engine=engine)
    assert all(p.dtype == torch.float32 for p in made.model.parameters())
    assert made.metrics()[-1]["valid"]["loss"] > 0


def test_both_paths_learn_the_same(tmp_path: Path) -> None:
    losses = []
    for cell in ("fast", "reference"):
        made, _ = trained(tmp_path / cell, f"model.cell={cell}", "model.dropout=0")
        losses.append(made.metrics()[-1]["valid"]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_loss_that_is_not_finite_stops_the_run_and_updates_nothing() -> None:
    model = torch.nn.Linear(2, 2)
    before = model.weight.clone()

    calls = iter([1.0, 1.0, 1.0, 1.0, float("nan")])
    loop = Loop(
        model,
        BatchStream(lambda epoch: InMemory([[4]] * 3, [[4]] * 3), seed=0, batch_size=1),
        WholeBatch(
            lambda model, batch, carried: Sums.of(model(torch.ones(1, 2)).sum() * next(calls), 1, 0)
        ),
        torch.optim.SGD(model.parameters(), lr=0.0),
        lambda step: 0.0,
        10,
    )
    with pytest.raises(UserError, match=r"loss is nan at step 5 \(epoch 2, batch 2\)"):
        loop.run()
    assert model.weight.equal(before)
    assert loop.progress.step == 4


def test_the_batch_that_went_wrong_is_named_when_several_make_an_update() -> None:
    model = torch.nn.Linear(2, 2)
    losses = iter([1.0, float("inf")])
    loop = Loop(
        model,
        BatchStream(lambda epoch: InMemory([[4]], [[4]]), seed=0, batch_size=1),
        WholeBatch(
            lambda model, batch, carried: Sums.of(
                model(torch.ones(1, 2)).sum() * next(losses), 1, 0
            )
        ),
        torch.optim.SGD(model.parameters(), lr=0.0),
        lambda step: 0.0,
        10,
        accumulate=3,
    )
    with pytest.raises(UserError, match=r"step 1 \(epoch 2, batch 1\)"):
        loop.run()


def test_a_validation_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    saved: list[str] = []
    evaluate = Evaluate(
        1,
        "loss",
        lambda: {"loss": float("nan")},
        lambda sums: {},
        lambda: saved.append("best"),
        tmp_path / "log",
    )
    loop = Loop(
        torch.nn.Linear(2, 2),
        BatchStream(lambda epoch: InMemory([[4]], [[4]]), seed=0, batch_size=1),
        WholeBatch(lambda model, batch, carried: Sums.of(model(torch.ones(1, 2)).sum(), 1, 0)),
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.0),
        lambda step: 0.0,
        3,
        callbacks=[evaluate],
    )
    with pytest.raises(UserError, match="loss on valid is nan after step 1"):
        loop.run()
    assert not saved


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([(0.5, 1.0), (0.5, 0.9), (0.5, 0.95)], [True, True, False]),  # a tie: the lower loss
        ([(0.5, 1.0), (0.6, 2.0), (0.4, 0.1)], [True, True, False]),
    ],
)
def test_the_best_weights_are_the_best_score_and_then_the_lower_loss(
    tmp_path, scores, best
) -> None:
    model, result = torch.nn.Linear(2, 2), iter(scores)
    kept: list[dict] = []
    evaluate = Evaluate(
        1,
        "exact_match",
        lambda: dict(zip(("exact_match", "loss"), next(result), strict=True)),
        lambda sums: {},
        lambda: None,
        tmp_path / "log",
        report=kept.append,
    )
    loop = Loop(
        model,
        BatchStream(lambda epoch: InMemory([[4]], [[4]]), seed=0, batch_size=1),
        WholeBatch(lambda model, batch, carried: Sums.of(model(torch.ones(1, 2)).sum(), 1, 0)),
        torch.optim.SGD(model.parameters(), lr=0.0),
        lambda step: 0.0,
        3,
        callbacks=[evaluate],
    )
    loop.run()
    assert [line["best"] for line in kept] == best


WITH_GRAPH_BREAKS = """
import sys, torch
torch._logging.set_logs(graph_breaks=True)
from regard.commands.app import main
sys.argv = ["regard", *ARGUMENTS]
main()
"""


@pytest.mark.parametrize("recipe", ["sort", "parity"])
def test_compiling_changes_nothing_but_rounding(recipe, forks, tiny, tmp_path: Path) -> None:
    """In a process of its own: the compiler cannot read through the shape checker."""
    arguments = ["train", recipe, *tiny, "-s", "model.n_layers=1", "--compile", "--out", "other"]
    result = subprocess.run(
        [forks.folder / "run-text", WITH_GRAPH_BREAKS.replace("*ARGUMENTS", repr(arguments)[1:-1])],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    # A Transformer is one graph, with its dropout; an LSTM's kernel is none of the compiler's.
    assert ("Graph break" in result.stderr) == (recipe == "parity"), result.stderr
    train(config.load(recipe, [*TINY, "model.n_layers=1"]), tmp_path / "plain")
    compiled, plain = (read_metrics(tmp_path / name)[-1]["valid"] for name in ("other", "plain"))
    assert compiled["loss"] == pytest.approx(plain["loss"], rel=1e-4)


def test_a_resumed_bf16_run_has_the_same_bits(tmp_path: Path) -> None:
    engine = make_engine(device="cpu", precision="bf16")
    trained(tmp_path / "whole", "train.schedule=constant", engine=engine)
    trained(tmp_path / "parts", "train.schedule=constant", "train.steps=3", engine=engine)
    trained(tmp_path / "parts", "train.schedule=constant", engine=engine, resume=True)
    last = "checkpoints/step-6/model.safetensors"
    assert (tmp_path / "whole" / last).read_bytes() == (tmp_path / "parts" / last).read_bytes()


def test_a_device_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        assert make_engine(device="cuda").device.type == "cuda"
    else:
        with pytest.raises(UserError, match="--device cuda: this machine has none"):
            make_engine(device="cuda")


def test_what_a_processor_cannot_compute_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(loop: Loop) -> None:
        raise RuntimeError("could not create a primitive descriptor")  # as oneDNN says it

    monkeypatch.setattr(Loop, "probe", probe)
    half = make_engine(device="cpu", precision="bf16")
    with pytest.raises(UserError, match="cannot train this model in bf16: pass --precision fp32"):
        trained(tmp_path / "run", engine=half)
    assert not (tmp_path / "run").exists()
    with pytest.raises(RuntimeError, match="primitive"):  # in float32 it is a defect
        trained(tmp_path / "run")
