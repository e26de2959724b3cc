"""The training loop: for each batch, loss, backward, clip, step. All else is a callback."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.nn.randomness import drawing_from
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.system.threads import Mapped, side_by_side
from regard.training.loss import Sums
from regard.training.schedules import Schedule


@runtime_checkable
class TrainingBatch(Protocol):
    """A batch that can be moved, and knows how many targets it holds."""

    @property
    def tokens(self) -> int: ...

    def to(self, device: torch.device) -> "TrainingBatch": ...

    def shares(self, count: int) -> Sequence["TrainingBatch"]:
        """Its rows in up to so many batches; itself alone, if they cannot be parted."""
        ...


@runtime_checkable
class Batches(Protocol):
    """The batches of an epoch: a function of its number, from the start-th on."""

    def epoch(self, number: int, *, start: int = 0) -> Iterator[Any]: ...

    def count(self, number: int) -> int: ...

    def largest(self, number: int) -> dict[str, Any]:
        """The batches of an epoch that may take the most memory, by what to call them."""
        ...


Carried = dict[str, Tensor]
"""What one batch leaves for the next, such as the state of a recurrent network in mid-text."""

LossFunction = Callable[[Callable[..., Any], Any, Carried], Sums]
"""(model, batch, carried) -> sums over the batch's targets; it may change what is carried."""


@dataclass
class Progress:
    """How far a run has come; with the weights and the optimiser's state, all there is to know."""

    step: int = 0
    """Updates made."""
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch already used."""
    best: list[float] | None = None
    """The best evaluation so far: its score, higher being better, and its negative loss."""
    since_best: int = 0
    """Evaluations since then."""
    snapshots: list[list[float]] = field(default_factory=list)
    """Evaluations whose weights are kept to be averaged: the step of each, and its rank."""
    seen: dict[str, float] = field(default_factory=dict)
    """Sums over the training batches since the last evaluation."""
    seconds: float = 0.0
    """Spent training."""
    data: str = ""
    """The fingerprint of what is trained on."""
    engine: str = ""
    """Where and how it was computed."""


@dataclass(frozen=True)
class Stop:
    """Why a run ended before its last step."""

    reason: str
    signal: int | None = None
    """The number of the signal, if one asked for it."""


@runtime_checkable
class Callback(Protocol):
    """Something that happens besides: `after_step` is called once an update."""

    def after_step(self, loop: "Loop") -> None: ...


@dataclass
class Loop:
    """One loop for every task. It is handed a model and a loss, and knows neither."""

    model: nn.Module
    batches: Batches
    loss: LossFunction
    optimiser: torch.optim.Optimizer
    schedule: Schedule
    steps: int
    engine: Engine = field(default_factory=Engine)
    accumulate: int = 1
    shares: int = 1
    """Into how many a batch is parted, each for a thread of its own."""
    mapped: Mapped = map
    """How the shares of a batch are gone through: one after another, or side by side."""
    clip: float = 0.0
    seed: int = 0
    callbacks: Sequence[Callback] = ()
    progress: Progress = field(default_factory=Progress)
    carried: Carried = field(default_factory=dict)
    stop: Stop | None = None
    """Set by a callback to end the run after this step."""
    latest: Sums = field(default_factory=Sums)
    """Of the last update."""
    gradient_norm: float = 0.0

    def run(self) -> None:
        """Train until the last step, or until a callback gives a reason to stop."""
        model = self.engine.callable(self.model)
        batches = self._batches()
        self.model.train()
        with self.sharing():
            while self.progress.step < self.steps and self.stop is None:
                began = time.perf_counter()
                self.update(model, dict(next(batches) for _ in range(self.accumulate)))
                self.progress.seconds += time.perf_counter() - began
                for callback in self.callbacks:
                    callback.after_step(self)

    def update(self, model: Callable[..., Any], batches: dict[str, TrainingBatch]) -> None:
        """One update: the gradient of Σ loss / Σ tokens over these batches together.

        Divided once, by the count of them all: one batch of 16 and four of 4 are the same update.
        Batches come with the name of their place, to be named if one goes wrong.
        """
        number = self.progress.step + 1
        torch.manual_seed(_mixed(self.seed, number))  # dropout: a function of (seed, step)
        tokens = sum(batch.tokens for batch in batches.values())
        total = Sums()
        for order, (place, batch) in enumerate(batches.items()):
            with naming_the_batch(place):
                total = total + self._learn(
                    model, batch, self.carried, tokens=tokens, place=place, order=order
                )
        limit = self.clip or math.inf
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        self.gradient_norm = float(norm)
        if not math.isfinite(self.gradient_norm):
            self._refuse("gradient norm", self.gradient_norm, " and ".join(batches))
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule(number)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.progress.step = number
        self.latest = total
        self._remember(total)

    def _learn(
        self,
        model: Callable[..., Any],
        batch: TrainingBatch,
        carried: Carried,
        *,
        tokens: int,
        place: str,
        order: int = 0,
    ) -> Sums:
        """Add the gradient of a batch's loss / tokens to what is there; its sums.

        order: which batch of the update it is.
        """
        shares = [batch] if self.shares == 1 else batch.shares(self.shares)
        if len(shares) == 1:
            loss, sums = self._checked(model, batch, carried, place)
            (loss / tokens).backward()
            return sums
        learned = [one for one in self.model.parameters() if one.requires_grad]
        step = self.progress.step + 1
        numbers = range(1 + order * self.shares, 1 + order * self.shares + len(shares))

        def of_share(share: TrainingBatch, number: int) -> tuple[Sequence[Tensor | None], Sums]:
            drawn = torch.Generator().manual_seed(_mixed(self.seed, step, number))
            with drawing_from(drawn):
                loss, sums = self._checked(model, share, {}, place)
            return torch.autograd.grad(loss / tokens, learned, allow_unused=True), sums

        total = Sums()
        for gradients, sums in self.mapped(of_share, shares, numbers):
            for parameter, gradient in zip(learned, gradients, strict=True):
                if gradient is not None:
                    before = parameter.grad
                    parameter.grad = gradient if before is None else before + gradient
            total = total + sums
        return total

    @contextlib.contextmanager
    def sharing(self) -> Iterator[None]:
        """Meanwhile the shares of a batch are computed side by side, a thread each.

        Their gradients are added up in order, and each draws random numbers of its own: so one
        after another they come to the same.
        """
        with side_by_side(self.shares) as self.mapped:
            try:
                yield
            finally:
                self.mapped = map

    def _checked(
        self, model: Callable[..., Any], batch: TrainingBatch, carried: Carried, place: str
    ) -> tuple[Tensor, Sums]:
        """The loss, if it is a number, and the sums with its value."""
        loss, sums = self._loss(model, batch, carried)
        sums.loss = loss.item()
        if not math.isfinite(sums.loss):
            self._refuse("loss", sums.loss, place)
        return loss, sums

    def _loss(
        self, model: Callable[..., Any], batch: TrainingBatch, carried: Carried
    ) -> tuple[Tensor, Sums]:
        with self.engine.autocast(cached=self.shares == 1):
            sums = self.loss(model, batch.to(self.engine.device), carried)
        assert isinstance(sums.loss, Tensor)
        return sums.loss, sums

    def probe(self) -> None:
        """Go forward and back on the largest batches once, to see now if there is memory for them.

        Beside what the optimiser will keep, which a step of no length makes it allocate. Nothing
        comes of it: all is dropped, and every update seeds its own randomness.
        """
        self.model.train()
        for place, batch in self.batches.largest(self.progress.epoch).items():
            self._probe(place, batch)

    def _probe(self, place: str, batch: TrainingBatch) -> None:
        with naming_the_batch(f"the largest batch ({place})"):
            for group in self.optimiser.param_groups:
                group["lr"] = 0.0
                for parameter in group["params"]:
                    parameter.grad = torch.zeros_like(parameter)
            self.optimiser.step()
            if self.accumulate == 1:  # otherwise a batch finds the gradients of the one before it
                self.optimiser.zero_grad(set_to_none=True)
            with self.sharing():
                self._learn(self.model, batch, {}, tokens=batch.tokens, place=place)
        self.optimiser.zero_grad(set_to_none=True)
        self.optimiser.state.clear()

    @property
    def learning_rate(self) -> float:
        """Of the last update."""
        return self.schedule(max(1, self.progress.step))

    def _batches(self) -> Iterator[tuple[str, Any]]:
        """Batches without end and their places, from where progress stands, which keeps count."""
        while True:
            for batch in self.batches.epoch(self.progress.epoch, start=self.progress.batch):
                self.progress.batch += 1
                yield f"epoch {self.progress.epoch + 1}, batch {self.progress.batch}", batch
            if self.progress.batch == 0:
                raise UserError("There is nothing to train on: the training data is empty.")
            self.progress.epoch += 1
            self.progress.batch = 0

    def _remember(self, sums: Sums) -> None:
        seen = self.progress.seen
        for name, value in asdict(sums).items():
            seen[name] = seen.get(name, 0) + value

    def take_seen(self) -> Sums:
        """Sums over the training batches since this was last asked."""
        seen, self.progress.seen = self.progress.seen, {}
        return Sums(seen.get("loss", 0.0), int(seen.get("tokens", 0)), int(seen.get("correct", 0)))

    def _refuse(self, what: str, value: float, place: str) -> None:
        raise UserError(
            f"The {what} is {value} at step {self.progress.step + 1} ({place}). Nothing was "
            f"updated by it. Try a lower train.lr, a longer train.warmup, or train.clip."
        )


def _mixed(seed: int, step: int, share: int = 0) -> int:
    """One number for (seed, step, share), spread so that neighbours do not overlap."""
    spread = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
    return sum(one * by for one, by in zip((seed, step, share), spread, strict=True)) % 2**63
