"""Ranks: today one of one; two that exchange their sums come to what one does alone."""

import copy
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.data.batches import BatchStream, collate
from regard.data.examples import InMemory
from regard.system.ranks import World
from regard.training.averages import Snapshots
from regard.training.callbacks import Evaluate, SaveCheckpoints
from regard.training.gradients import WholeBatch
from regard.training.loop import Loop
from regard.training.loss import Sums, token_sums

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
    meeting, brought = threading.Barrier(2), {}
    ranks: dict[int, Loop] = {}

    def work(rank: int, own: nn.Module) -> None:
        ranks[rank] = updated(own, Together(rank, 2, meeting, brought))

    threads = [
        threading.Thread(target=work, args=(rank, copy.deepcopy(model))) for rank in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for loop in ranks.values():
        assert loop.latest.means() == pytest.approx(alone.latest.means())
        assert loop.latest.tokens == alone.latest.tokens
        assert loop.gradient_norm == pytest.approx(alone.gradient_norm)
        for name, weight in alone.model.state_dict().items():
            torch.testing.assert_close(loop.model.state_dict()[name], weight)


class Silent(World):
    def add_up(self, tensors: Iterable[Tensor]) -> None: ...


@pytest.mark.parametrize("rank", [0, 1])
def test_only_rank_0_writes_files(tmp_path: Path, rank: int) -> None:
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    saved: list[str] = []
    snapshots = Snapshots(tmp_path / "snapshots", 1, "last", {})
    evaluate = Evaluate(
        1,
        "loss",
        lambda: {"loss": 1.0},
        Sums.means,
        lambda: saved.append("best"),
        tmp_path / "metrics.jsonl",
        snapshots=snapshots,
    )
    loop = Loop(
        model,
        BatchStream(lambda epoch: InMemory(ROWS, ROWS), seed=0, batch_size=13),
        WholeBatch(loss, world=Silent(rank, 2)),
        torch.optim.SGD(model.parameters()),
        lambda step: 0.1,
        2,
        callbacks=[evaluate, SaveCheckpoints(tmp_path / "checkpoints", 1, 1)],
    )
    loop.run()
    assert loop.progress.best == [-1.0, -1.0]
    assert bool(list(tmp_path.iterdir())) == (rank == 0) == bool(saved)
