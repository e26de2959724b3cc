"""Data that needs no file: generators by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, runtime_checkable

from regard.config import Data
from regard.data import dates, numbers, parity, pronunciations, synthetic
from regard.data.splits import Pair, Split

HELD_OUT = {"valid": 500, "test": 2_000}
"""Held-out examples of a stream, no two alike."""


@runtime_checkable
class Stream(Protocol):
    """Endless pairs of one split: a function of (seed, epoch)."""

    def __call__(self, data: Data, split: Split, *, seed: int, epoch: int) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class Endless:
    """Every epoch has new examples; the held-out ones are fixed."""

    stream: Stream

    def training(self, data: Data, *, seed: int, epoch: int) -> list[Pair]:
        """The examples of one epoch."""
        return list(islice(self.stream(data, "train", seed=seed, epoch=epoch), data.epoch_size))

    def held_out(self, data: Data, split: Split) -> list[Pair]:
        """The same whatever the run's seed, so that scores compare."""
        found: dict[str, str] = {}
        most = 10 * HELD_OUT[split]  # short examples are few: all there are will have to do
        for source, target in islice(self.stream(data, split, seed=0, epoch=0), most):
            found.setdefault(source, target)
            if len(found) == HELD_OUT[split]:
                break
        return list(found.items())


@dataclass(frozen=True)
class Finite:
    """A list of examples, the same in every epoch."""

    pairs: Callable[[Data, Split], list[Pair]]

    def training(self, data: Data, *, seed: int, epoch: int) -> list[Pair]:
        return self.pairs(data, "train")

    def held_out(self, data: Data, split: Split) -> list[Pair]:
        return self.pairs(data, split)


GENERATORS: dict[str, Endless | Finite] = {
    **{task: Endless(partial(synthetic.stream, task)) for task in synthetic.TASKS},
    "parity": Endless(parity.stream),
    "parity-long": Endless(parity.long_stream),
    "dates": Endless(dates.stream),
    "numbers": Endless(numbers.stream),
    "cmudict": Finite(pronunciations.pairs),
}
"""What `data.train`, `valid` and `test` may name beside a file."""
