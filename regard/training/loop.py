"""The training loop: gradient, clip, learning rate, step. All else is a callback."""

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from pydantic import ConfigDict
from torch import nn

from regard.data.batches import TARGETS
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.system.ranks import World
from regard.system.shards import whole
from regard.training.gradients import Carried, TrainingBatch, WholeBatch, check_finite
from regard.training.loss import Sum, Sums
from regard.training.schedules import Schedule
from regard.training.sharding import unsharded


@runtime_checkable
class Batches(Protocol):
    """The batches of an epoch: a function of its number, from the start-th on."""

    def epoch(self, number: int, *, start: int = 0) -> Iterator[Any]: ...

    def count(self, number: int) -> int: ...

    def largest(self, number: int) -> dict[str, Any]:
        """The batches of an epoch that may take the most memory, by their sizes in words."""
        ...


Numbers = dict[str, int | float]
"""The fields of a `Sum`, by name."""
SUM_FIELDS = {part.name for part in fields(Sum)}


@dataclass
class Progress:
    """How far a run has come; with the weights and the optimiser's state, all there is to know.

    A checkpoint keeps it as progress.json, which is read back by these types.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

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
    seen: dict[str, Numbers | int | float] = field(default_factory=dict)
    """Sums over the training batches since the last evaluation, by the name of their loss."""
    seconds: float = 0.0
    """How long training took so far."""
    data: str = ""
    """The fingerprint of what is trained on."""
    engine: str = ""
    """Where and how it was computed."""
    threads: int = 0
    """How many threads computed it; 0 if that does not matter, or was not recorded."""
    processes: int = 1
    """How many processes trained together."""
    held_out: dict[str, str] = field(default_factory=dict)
    """The fingerprints of the data that is not trained on, by split."""
    config: dict[str, Any] | None = None
    """The whole configuration; None in checkpoints of earlier versions."""
    recipe: dict[str, Any] | None = None
    """The keys of the recipe or YAML file that the run was started with, if it was started so."""

    def __post_init__(self) -> None:
        if isinstance(self.seen.get("tokens"), int):  # saved when losses had no names
            count = self.seen.pop("tokens")
            self.seen = {TARGETS: {"count": count, **self.seen}}  # type: ignore[dict-item]
        for name, numbers in self.seen.items():
            if not isinstance(numbers, dict) or not numbers.keys() <= SUM_FIELDS:
                raise ValueError(f"seen.{name}: not the sums of a loss")

    def add(self, sums: Sums) -> None:
        """Add the sums of an update to those since the last evaluation."""
        self.seen = {name: asdict(part) for name, part in (self._sums() + sums).items()}

    def take_sums(self) -> Sums:
        """The sums over the training batches since this was last called."""
        sums, self.seen = self._sums(), {}
        return sums

    def _sums(self) -> Sums:
        return Sums({name: Sum(**numbers) for name, numbers in self.seen.items()})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stop:
    """Why a run ended before its last step."""

    reason: str
    signal: int | None = None
    """The number of the signal, if one asked for it."""


@runtime_checkable
class Callback(Protocol):
    """Something that happens beside the loop: `after_step` is called after every update."""

    def after_step(self, loop: "Loop") -> None: ...


@dataclass
class Loop:
    """One loop for every task: gradient, clip, learning rate, step. It knows no model and no loss.

    Whatever else happens, such as evaluating and saving, is a callback.
    """

    model: nn.Module
    batches: Batches
    gradients: WholeBatch
    """How the gradient of an update is made."""
    optimiser: torch.optim.Optimizer
    schedule: Schedule
    steps: int
    accumulate: int = 1
    """How many batches make one update."""
    clip: float = 0.0
    """The largest gradient norm; 0 does not clip."""
    callbacks: Sequence[Callback] = ()
    progress: Progress = field(default_factory=Progress)
    carried: Carried = field(default_factory=dict)
    stop: Stop | None = None
    """Set by a callback to end the run after this step."""
    latest: Sums = field(default_factory=Sums)
    """The sums of the last update."""
    gradient_norm: float = 0.0

    @property
    def engine(self) -> Engine:
        """Where and how the numbers are computed."""
        return self.gradients.engine

    @property
    def world(self) -> World:
        """Which of the processes that train together this is."""
        return self.gradients.world

    def whole_model(self) -> AbstractContextManager[None]:
        """Within it this rank has all weights, also of a model that is sharded in training."""
        return unsharded(self.model) if self.engine.sharded else contextlib.nullcontext()

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last update, where no lr_scale changes it."""
        return self.schedule(max(1, self.progress.step))

    def run(self) -> None:
        """Train until the last step, or until a callback gives a reason to stop."""
        model = self.engine.callable(self.model)
        batches = self._batches()
        self.model.train()
        with self.gradients.ready():
            while self.progress.step < self.steps and self.stop is None:
                began = time.perf_counter()
                self.update(model, dict(next(batches) for _ in range(self.accumulate)))
                self.progress.seconds += time.perf_counter() - began
                for callback in self.callbacks:
                    callback.after_step(self)

    def update(self, model: nn.Module, batches: dict[str, TrainingBatch]) -> None:
        """One update from the gradient of these batches together.

        Batches come with the name of their place, by which they are called if one goes wrong.
        """
        step = self.progress.step + 1
        sums = self.gradients.add(model, batches, self.carried, step=step)
        self._clip(step, place=" and ".join(batches))
        self._set_learning_rate(self.schedule(step))
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.progress.step = step
        self.latest = sums
        self.progress.add(sums)

    def _clip(self, step: int, *, place: str) -> None:
        """Scale the gradient down to the largest norm allowed; refuse one that is not finite."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip or math.inf)
        self.gradient_norm = float(whole(norm))
        check_finite("gradient norm", self.gradient_norm, step=step, place=place)

    def _set_learning_rate(self, rate: float) -> None:
        """Give every group of weights scale × rate."""
        for group in self.optimiser.param_groups:
            group["lr"] = group.get("lr_scale", 1.0) * rate

    def probe(self) -> None:
        """Go forward and back on the largest batches once, to see now if there is memory for them.

        The optimiser's state is there meanwhile: a step of length 0 allocates it. Nothing comes of
        it: all is dropped, and every update seeds its own randomness.
        """
        self.model.train()
        for size, batch in self.batches.largest(self.progress.epoch).items():
            self._probe(f"the largest batch ({size})", batch)

    def _probe(self, place: str, batch: TrainingBatch) -> None:
        with naming_the_batch(place):
            self._set_learning_rate(0.0)
            for group in self.optimiser.param_groups:
                for parameter in group["params"]:
                    parameter.grad = torch.zeros_like(parameter)
            self.optimiser.step()
            if self.accumulate == 1:  # otherwise a batch meets the gradients of the one before it
                self.optimiser.zero_grad(set_to_none=True)
            with self.gradients.ready():
                self.gradients.add(self.model, {place: batch}, {}, step=self.progress.step + 1)
        self.optimiser.zero_grad(set_to_none=True)
        self.optimiser.state.clear()

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
