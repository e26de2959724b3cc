"""Data that needs no file: generators by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, runtime_checkable

from regard.config import Data
from regard.data import dates, numbers, parity, pronunciations, synthetic
from regard.data.splits import Pair, Split
from regard.system.memory import require_memory

HELD_OUT = {"valid": 500, "test": 2_000}
"""How many different examples of a stream are held out."""

SAMPLED = 100
"""So many examples tell how long those of an epoch are."""
BYTES_PER_EXAMPLE, BYTES_PER_CHARACTER = 600, 8
"""What an example takes in memory, as a row and as token ids: roughly, and rather too little."""


@runtime_checkable
class Stream(Protocol):
    """Endless pairs of one split: a function of (seed, epoch)."""

    def __call__(self, data: Data, split: Split, *, seed: int, epoch: int) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class Endless:
    """Every epoch has new examples; the held-out ones are fixed."""

    stream: Stream

    def training(self, data: Data, *, seed: int, epoch: int) -> list[Pair]:
        """The examples of one epoch, if there is memory for them."""
        examples = islice(self.stream(data, "train", seed=seed, epoch=epoch), data.epoch_size)
        first = list(islice(examples, SAMPLED))
        characters = sum(len(text) for pair in first for text in pair)
        require_memory(
            (BYTES_PER_EXAMPLE + BYTES_PER_CHARACTER * characters // len(first)) * data.epoch_size,
            what=f"data.epoch_size={data.epoch_size:,} examples",
            remedy="a smaller data.epoch_size, or a shorter data.max_length",
        )
        return [*first, *examples]

    def held_out(self, data: Data, split: Split) -> list[Pair]:
        """Examples that do not depend on the run's seed, so that metrics can be compared."""
        pairs: dict[str, str] = {}
        most = 10 * HELD_OUT[split]  # there may be fewer short examples: then all there are
        for source, target in islice(self.stream(data, split, seed=0, epoch=0), most):
            pairs.setdefault(source, target)
            if len(pairs) == HELD_OUT[split]:
                break
        return list(pairs.items())


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
"""The names that `data.train`, `valid` and `test` may have instead of a file."""
