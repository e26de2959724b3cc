"""Ranks: today one of one; two that exchange their sums come to what one does alone."""

import copy
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from regard import config
from regard.data.batches import BatchStream, collate
from regard.data.examples import InMemory
from regard.runs.trainer import _loop, train
from regard.system.engine import Engine
from regard.system.ranks import World
from regard.tasks import TASKS
from regard.training.averages import Snapshots
from regard.training.callbacks import Evaluate, SaveCheckpoints
from regard.training.gradients import WholeBatch
from regard.training.loop import Loop
from regard.training.loss import Sums, token_sums
from tests.conftest import TINY

Result = TypeVar("Result")
ROWS = [[4 + number % 5, 5, 6][: 1 + number % 3] for number in range(13)]


def test_one_process_is_rank_0_of_1_and_several_need_to_communicate() -> None:
    alone = World()
    assert (alone.rank, alone.size, alone.writes) == (0, 1, True)
    numbers = torch.ones(3)
    alone.add_up([numbers])
    assert numbers.tolist() == [1, 1, 1]
    with pytest.raises(NotImplementedError, match="2 ranks"):
        World(1, 2).add_up([numbers])


@pytest.mark.parametrize("size", [2, 3])
def test_the_rows_of_all_ranks_are_the_batch_each_once(size: int) -> None:
    batch = collate(ROWS, ROWS)
    parts = [batch.rows(World(rank, size).rows) for rank in range(size)]
    rows = sorted(row for part in parts for row in part.source.tolist())
    assert rows == sorted(batch.source.tolist())
    assert sum(part.tokens for part in parts) == batch.tokens
    assert [World(rank, size).writes for rank in range(size)] == [True] + [False] * (size - 1)


@dataclass(frozen=True)
class Together(World):
    """A rank in a thread: ranks leave their tensors in one place, wait, and add them up."""

    meeting: threading.Barrier | None = None
    brought: dict[int, list[Tensor]] | None = None

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        own = list(tensors)
        self.brought[self.rank] = [tensor.clone() for tensor in own]
        self.meeting.wait(timeout=60)
        for number, tensor in enumerate(own):
            tensor.copy_(sum(self.brought[rank][number] for rank in range(self.size)))
        self.meeting.wait(timeout=60)


def on_two_ranks(work: Callable[[World], Result]) -> list[Result]:
    """What each of two ranks, in threads, comes to."""
    meeting, brought = threading.Barrier(2), {}
    worlds = [Together(rank, 2, meeting=meeting, brought=brought) for rank in range(2)]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, worlds))


def loss(model: nn.Module, batch, carried: dict) -> Sums:
    return token_sums(model(batch.target_in), batch.target_out, tokens=batch.tokens, padding=0)


def updated(model: nn.Module, world: World) -> Loop:
    none = BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    gradients = WholeBatch(loss, world=world)
    loop = Loop(model, none, gradients, optimiser, lambda step: 1.0, 1, clip=0.5)
    loop.update(model, {"1": collate(ROWS, ROWS), "2": collate(ROWS[:5], ROWS[:5])})
    return loop


def test_two_ranks_make_the_update_of_one() -> None:
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    alone = updated(copy.deepcopy(model), World())
    for loop in on_two_ranks(lambda world: updated(copy.deepcopy(model), world)):
        assert loop.latest.means() == pytest.approx(alone.latest.means())
        assert loop.latest.tokens == alone.latest.tokens
        assert loop.gradient_norm == pytest.approx(alone.gradient_norm)
        for name, weight in alone.model.state_dict().items():
            torch.testing.assert_close(loop.model.state_dict()[name], weight)


def test_only_rank_0_writes_files(tmp_path: Path) -> None:
    def work(world: World) -> list[str]:
        model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
        folder = tmp_path / str(world.rank)
        folder.mkdir()
        saved: list[str] = []
        evaluate = Evaluate(
            1,
            "loss",
            lambda: {"loss": 1.0},
            Sums.means,
            lambda: saved.append("best"),
            folder / "metrics.jsonl",
            snapshots=Snapshots(folder / "snapshots", 1, "last", {}),
        )
        loop = Loop(
            model,
            BatchStream(lambda epoch: InMemory(ROWS, ROWS), seed=0, batch_size=13),
            WholeBatch(loss, world=world),
            torch.optim.SGD(model.parameters()),
            lambda step: 0.1,
            2,
            callbacks=[evaluate, SaveCheckpoints(folder / "checkpoints", 1, 1)],
        )
        loop.run()
        assert loop.progress.best == [-1.0, -1.0]
        return saved

    assert on_two_ranks(work) == [["best"], []]
    assert {path.name for path in (tmp_path / "0").iterdir()} == {
        "metrics.jsonl",
        "snapshots",
        "checkpoints",
    }
    assert not list((tmp_path / "1").iterdir())


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("sort", TINY),
        ("sort", [*TINY, "train.r_drop=1"]),
        *(("sort", [*TINY, f"model.kind={kind}"]) for kind in ("rnn", "gru", "lstm")),
        ("parity", ["model.d_model=8"]),
    ],
)
def test_a_rank_without_rows_makes_the_same_update(recipe: str, settings: list[str]) -> None:
    resolved = config.load(recipe, [*settings, "model.dropout=0", "seed=3"])
    task = TASKS[resolved.task].learn(resolved)
    batch = next(task.batches().epoch(0)).rows(slice(1))

    def work(world: World) -> Loop:
        loop = _loop(resolved, task, task.build_model(), Engine(), world)
        loop.model.train()
        loop.update(loop.model, {"one row": batch})
        return loop

    alone = work(World())
    for loop in on_two_ranks(work):
        assert loop.latest.means() == pytest.approx(alone.latest.means())
        assert loop.gradient_norm == pytest.approx(alone.gradient_norm, rel=1e-4)


def test_ranks_add_up_a_weight_that_has_a_gradient_on_one_of_them_alone() -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.even, self.odd, self.unused = (nn.Parameter(torch.ones(n)) for n in (2, 3, 4))

    def half(model: nn.Module, batch, carried: dict) -> Sums:
        even = int(batch.source[0, 0]) == 4  # of the first row
        return Sums.of((model.even if even else model.odd).sum(), batch.tokens)

    def work(world: World) -> nn.Module:
        model = Halves()
        WholeBatch(half, world=world).add(model, {"1": collate([[4], [5]], [[4], [5]])}, {}, step=1)
        return model

    for model in on_two_ranks(work):
        assert model.even.grad.tolist() == [0.25] * 2
        assert model.odd.grad.tolist() == [0.25] * 3
        assert model.unused.grad is None


def test_two_ranks_train_into_one_directory_which_rank_0_alone_writes(tmp_path: Path) -> None:
    few = [*TINY, "train.steps=2", "train.eval_every=1", "model.dropout=0", "train.average=2"]
    spoken: list[str] = []

    def work(world: World) -> dict[str, Tensor]:
        resolved = config.load("sort", [*few, "train.shares=1"])
        run, _ = train(resolved, tmp_path / "both", world=world, say=spoken.append)
        return run.model.state_dict()

    first, second = on_two_ranks(work)
    alone, _ = train(config.load("sort", few), tmp_path / "alone", say=spoken.append)
    for name, weight in alone.model.state_dict().items():
        assert first[name].equal(second[name])
        torch.testing.assert_close(first[name], weight, atol=1e-4, rtol=1e-3)
    lines = [(tmp_path / run / "metrics.jsonl").read_text() for run in ("both", "alone")]
    assert lines[0].count("\n") == lines[1].count("\n")
