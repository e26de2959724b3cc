"""How the gradient of an update is made: batch by batch, or in shares, one per thread."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.nn.randomness import sampling_from, seeded
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.system.ranks import World
from regard.system.threads import Mapped, side_by_side
from regard.training.loss import Sum, Sums


@runtime_checkable
class TrainingBatch(Protocol):
    """A batch that can be moved and divided, and knows how many targets it holds."""

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        ...

    def to(self, device: torch.device) -> "TrainingBatch": ...

    def rows(self, which: slice) -> "TrainingBatch":
        """Some of its rows."""
        ...

    def shares(self, count: int) -> Sequence["TrainingBatch"]:
        """Its rows in at most this many batches; itself alone, if it cannot be divided."""
        ...


Carried = dict[str, Tensor]
"""What one batch leaves for the next, such as the state of a recurrent network in mid-text."""

LossFunction = Callable[[Callable[..., Any], Any, Carried], Sums]
"""(model, batch, carried) -> sums over the batch's targets; it may change what is carried."""


@dataclass(frozen=True)
class Place:
    """Where in training a batch stands: it decides its random numbers, and names it in errors."""

    step: int
    """The number of the update, from 1."""
    order: int
    """Which of the update's batches it is, from 0."""
    name: str


@dataclass
class WholeBatch:
    """The gradient of Σ_name (Σ loss_name / Σ count_name), made batch by batch.

    Each loss is divided once, by its count in all batches of the update and all ranks: one batch
    of 16 rows and four of 4 are the same update.
    """

    loss: LossFunction
    engine: Engine = field(default_factory=Engine)
    seed: int = 0
    world: World = field(default_factory=World)

    def ready(self) -> AbstractContextManager[None]:
        """Within it, gradients are made as fast as they can be."""
        return contextlib.nullcontext()

    def add(
        self, model: nn.Module, batches: dict[str, TrainingBatch], carried: Carried, *, step: int
    ) -> Sums:
        """Add the gradient of these batches to the weights' gradients; the sums of all ranks.

        Batches come with names, by which they are called if something goes wrong.
        """
        counts = _added(batch.counts for batch in batches.values())
        sums = Sums()
        # Dropout is a function of (seed, step, rank).
        with seeded(mixed(self.seed, step, rank=self.world.rank)):
            for order, (name, batch) in enumerate(batches.items()):
                with naming_the_batch(name):
                    own = batch.rows(self.world.rows)
                    place = Place(step, order, name)
                    sums = sums + self._add_batch(model, own, carried, counts=counts, place=place)
        # Ranks may be threads, which wait for each other here: none may hold the generator.
        if not self.engine.sharded:  # or they are added up as they are made
            _add_up_gradients(model, self.world)
        return sums_over_ranks(sums, self.world)

    def _add_batch(
        self,
        model: nn.Module,
        batch: TrainingBatch,
        carried: Carried,
        *,
        counts: dict[str, int],
        place: Place,
    ) -> Sums:
        """Add the gradient of one batch, whose losses are divided by `counts`; its sums."""
        total, sums = self._forward(model, batch, carried, counts=counts, place=place)
        total.backward()
        return sums

    def _forward(
        self,
        model: nn.Module,
        batch: TrainingBatch,
        carried: Carried,
        *,
        counts: dict[str, int],
        place: Place,
    ) -> tuple[Tensor, Sums]:
        """The total to differentiate, if it is finite, and the sums as plain numbers."""
        with self._autocast():
            sums = self.loss(model, batch.to(self.engine.device), carried)
        numbers = Sums() + sums
        for part in numbers.values():
            check_finite("loss", float(part.loss), step=place.step, place=place.name)
        return sums.total(counts), numbers

    def _autocast(self) -> AbstractContextManager[Any]:
        return self.engine.autocast()


@dataclass
class SharesInThreads(WholeBatch):
    """The same gradient, each batch divided into shares that threads compute side by side.

    The gradients of the shares are added up in order, and each share has random numbers of its
    own: computed one after another, they come to the same bits.
    """

    shares: int = 2
    """Into how many shares a batch is divided."""
    mapped: Mapped = map
    """How the shares of a batch are gone through: one after another, or side by side."""

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Within it, the shares of a batch are computed side by side, each in its own thread."""
        with side_by_side(self.shares) as self.mapped:
            try:
                yield
            finally:
                self.mapped = map

    def _add_batch(
        self,
        model: nn.Module,
        batch: TrainingBatch,
        carried: Carried,
        *,
        counts: dict[str, int],
        place: Place,
    ) -> Sums:
        shares = batch.shares(self.shares)
        if len(shares) == 1:
            return super()._add_batch(model, batch, carried, counts=counts, place=place)
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        first = 1 + place.order * self.shares

        def of_share(share: TrainingBatch, number: int) -> tuple[Sequence[Tensor | None], Sums]:
            seed = mixed(self.seed, place.step, number, rank=self.world.rank)
            with sampling_from(torch.Generator().manual_seed(seed)):
                total, sums = self._forward(model, share, {}, counts=counts, place=place)
            return torch.autograd.grad(total, trained, allow_unused=True), sums

        batch_sums = Sums()
        for gradients, sums in self.mapped(of_share, shares, range(first, first + len(shares))):
            for weight, gradient in zip(trained, gradients, strict=True):
                if gradient is not None:
                    before = weight.grad
                    weight.grad = gradient if before is None else before + gradient
            batch_sums = batch_sums + sums
        return batch_sums

    def _autocast(self) -> AbstractContextManager[Any]:
        # The cache of autocast is shared by all threads, and the first to leave empties it.
        return self.engine.autocast(cached=False)


def make_gradients(
    loss: LossFunction, *, engine: Engine, shares: int = 1, seed: int = 0, world: World
) -> WholeBatch:
    """Whole batches, or shares of them in threads where the engine can have several."""
    if shares > 1 and engine.shares_out:
        return SharesInThreads(loss, engine, seed, world, shares=shares)
    return WholeBatch(loss, engine, seed, world)


def check_finite(what: str, value: float, *, step: int, place: str) -> None:
    """Refuse a number that no update can be made of."""
    if not math.isfinite(value):
        raise UserError(
            f"The {what} is {value} at step {step} ({place}). Nothing was updated by it. "
            f"Try a lower train.lr, a longer train.warmup, or train.clip."
        )


def mixed(seed: int, step: int, share: int = 0, *, rank: int = 0) -> int:
    """One seed for (seed, step, share, rank), spread so that neighbours do not overlap."""
    spread = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
    numbers = (seed, step, share, rank)
    return sum(number * factor for number, factor in zip(numbers, spread, strict=True)) % 2**63


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Counts by name, of all batches together."""
    total: dict[str, int] = {}
    for batch in counts:
        for name, count in batch.items():
            total[name] = total.get(name, 0) + count
    return total


def _add_up_gradients(model: nn.Module, world: World) -> None:
    """Replace the gradient of every trained weight by its sum over all ranks.

    Ranks must bring the same tensors: a weight that has no gradient on this rank counts as zero.
    One that has none on any rank is left without: an optimiser would decay it otherwise.
    """
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    present = torch.tensor([float(weight.grad is not None) for weight in trained])
    for weight in trained:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    world.add_up([*(weight.grad for weight in trained if weight.grad is not None), present])
    for weight, ranks in zip(trained, present.tolist(), strict=True):
        if not ranks:
            weight.grad = None


def sums_over_ranks(sums: Sums, world: World) -> Sums:
    """The sums of all ranks together, as plain numbers; a rank may have none."""
    if world.size == 1:
        return Sums() + sums
    ranks = world.gather({name: asdict(part) for name, part in (Sums() + sums).items()})
    parts = (Sums({name: Sum(**part) for name, part in own.items()}) for own in ranks)
    return sum(parts, start=Sums())
