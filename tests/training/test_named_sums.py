"""Named losses: each divided once by its own count, in batches, updates, shares and lines."""

from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor, nn

from regard.data.batches import BatchStream
from regard.data.examples import InMemory
from regard.training.gradients import SharesInThreads, WholeBatch
from regard.training.loop import Loop, Progress
from regard.training.loss import Sum, Sums
from regard.training.progress import ShowProgress


@dataclass(frozen=True)
class TwoLosses:
    """Rows that each have one `nsp` target and two `mlm` targets, or none."""

    x: Tensor
    masked: Tensor
    counts: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        counts = {"mlm": 2 * int(self.masked.sum()), "nsp": len(self.x)}
        object.__setattr__(self, "counts", counts)

    def to(self, device: torch.device) -> "TwoLosses":
        return self

    def rows(self, which: slice) -> "TwoLosses":
        return TwoLosses(self.x[which], self.masked[which])

    def shares(self, count: int) -> "list[TwoLosses]":
        return [self.rows(slice(first, None, count)) for first in range(count)]


def two_losses(model: nn.Module, batch: TwoLosses, carried: dict) -> Sums:
    y = model(batch.x)  # B 3
    mlm = Sum((y[batch.masked][:, :2] ** 2).sum(), batch.counts["mlm"], 1)
    return Sums({"mlm": mlm, "nsp": Sum((y[:, 2] ** 4).sum(), batch.counts["nsp"], 2)})


def made(gradients: WholeBatch) -> Loop:
    torch.manual_seed(3)
    model = nn.Linear(4, 3)
    none = BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1)
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    return Loop(model, none, gradients, optimiser, lambda step: 1.0, 1)


@pytest.mark.parametrize("gradients", [WholeBatch(two_losses), SharesInThreads(two_losses)])
@pytest.mark.parametrize("pieces", [1, 3])
def test_each_named_loss_is_divided_once_by_its_own_count(gradients, pieces: int) -> None:
    x, masked = torch.randn(12, 4), torch.arange(12) % 5 == 0
    whole = TwoLosses(x, masked)
    loop = made(replace(gradients))
    start = loop.model.weight.detach().clone()
    y = loop.model(x)
    expected = (y[masked][:, :2] ** 2).sum() / 6 + (y[:, 2] ** 4).sum() / 12
    (gradient,) = torch.autograd.grad(expected, [loop.model.weight])
    batches = {str(i): whole.rows(slice(i, None, pieces)) for i in range(pieces)}
    loop.update(loop.model, batches)
    torch.testing.assert_close(start - loop.model.weight, gradient)
    assert loop.latest.mean_loss == pytest.approx(expected.item())
    assert {name: part.count for name, part in loop.latest.items()} == {"mlm": 6, "nsp": 12}


def test_lines_have_the_total_and_each_loss_by_its_name() -> None:
    sums = Sums({"mlm": Sum(6.0, 3, 1), "nsp": Sum(1.0, 2, 2)})
    assert sums.means("token_accuracy") == {
        "loss": 2.5,
        "mlm_loss": 2.0,
        "mlm_accuracy": 1 / 3,
        "nsp_loss": 0.5,
        "nsp_accuracy": 1.0,
    }
    assert Sums.of(6.0, 4, 1).means("token_accuracy") == {"loss": 1.5, "token_accuracy": 0.25}
    assert Sums().means("accuracy") == {"loss": 0.0, "accuracy": 0.0}


def test_the_progress_display_shows_every_named_loss() -> None:
    loop = made(WholeBatch(two_losses))
    loop.latest = Sums({"mlm": Sum(6.0, 3, 1), "nsp": Sum(1.0, 2, 2)})
    line = ShowProgress(steps=1)._line(loop)
    assert "loss 2.5000 mlm_loss 2.0000 mlm_accuracy 0.333 nsp_loss 0.5000" in line
    loop.latest = Sums.of(6.0, 4, 1)
    assert "loss 1.5000 accuracy 0.250 lr" in ShowProgress(steps=1)._line(loop)


def test_a_batch_without_targets_of_one_loss_adds_nothing_to_it() -> None:
    loop = made(WholeBatch(two_losses))
    loop.update(loop.model, {"": TwoLosses(torch.randn(4, 4), torch.zeros(4, dtype=torch.bool))})
    assert loop.latest["mlm"] == Sum(0.0, 0, 1)
    assert all(weight.isfinite().all() for weight in loop.model.parameters())


def test_sums_saved_before_losses_had_names_are_taken_up() -> None:
    progress = Progress(seen={"loss": 6.5, "tokens": 4, "correct": 1})
    progress.add(Sums.of(1.5, 4, 1))
    assert progress.seen == {"targets": {"loss": 8.0, "count": 8, "correct": 2}}
    assert Progress(seen=progress.seen).take_sums() == Sums.of(8.0, 8, 2)
    assert progress.take_sums().means() == {"loss": 1.0, "accuracy": 0.25}
    assert progress.take_sums() == Sums()
