"""Synthetic tasks: sequences made on the fly from a seed, in text form.

Every source belongs to exactly one of train, valid and test, by a hash of its text. However long
the training stream runs, it cannot meet a held-out sequence.
"""

import hashlib
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Literal, get_args

import numpy as np

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

Pair = tuple[str, str]

EPOCH = 10_000
"""Fresh training sequences an epoch."""

HELD_OUT = {"valid": 500, "test": 2_000}
"""Held-out sequences, no two alike."""

SHORTEST = 2


def split_of(source: str) -> Split:
    """Where a sequence belongs for good: 8 in 10 to train, 1 to valid, 1 to test."""
    tenth = hashlib.blake2b(source.encode(), digest_size=8).digest()[0] % 10
    return "valid" if tenth == 0 else "test" if tenth == 1 else "train"


def falling(random: np.random.Generator, longest: int) -> list[int]:
    """Digits already in order, but in the wrong one: 9 7 7 4."""
    return sorted(with_repeats(random, longest), reverse=True)


def permutation(random: np.random.Generator, longest: int) -> list[int]:
    """All ten digits, or as many as fit, shuffled."""
    return random.permutation(10)[:longest].tolist()


def with_repeats(random: np.random.Generator, longest: int) -> list[int]:
    """Any digits, 2 of them or more."""
    return random.integers(0, 10, random.integers(SHORTEST, longest + 1)).tolist()


KINDS = (falling, permutation, with_repeats)

TASKS: dict[str, Callable[[list[int]], list[int]]] = {
    "sort": sorted,
    "copy": list,
    "reverse": lambda digits: digits[::-1],
}
"""What becomes of the digits, by the generator's name."""


def stream(task: str, split: Split, *, seed: int, epoch: int, longest: int) -> Iterator[Pair]:
    """Endless pairs of one split: a function of (seed, epoch), each of the three kinds in turn."""
    random = np.random.default_rng([seed, epoch, SPLITS.index(split)])
    for kind in cycle(KINDS):
        source = None
        while source is None or split_of(source) != split:
            digits = kind(random, longest)
            source = _text(digits)
        yield source, _text(TASKS[task](digits))


def _text(digits: list[int]) -> str:
    return " ".join(map(str, digits))


def training_pairs(task: str, *, seed: int, epoch: int, longest: int) -> list[Pair]:
    """The sequences of one epoch."""
    return list(islice(stream(task, "train", seed=seed, epoch=epoch, longest=longest), EPOCH))


def held_out_pairs(task: str, split: Split, *, longest: int) -> list[Pair]:
    """The held-out sequences: the same whatever the run's seed, so that scores compare."""
    found: dict[str, str] = {}
    most = 10 * HELD_OUT[split]  # short sequences are few: all there are will have to do
    for source, target in islice(stream(task, split, seed=0, epoch=0, longest=longest), most):
        found.setdefault(source, target)
        if len(found) == HELD_OUT[split]:
            break
    return list(found.items())
