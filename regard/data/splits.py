"""Which split an example always belongs to, train, valid or test: decided by a hash."""

import hashlib
from collections.abc import Callable
from typing import Literal, TypeVar, get_args

import numpy as np

from regard.config import Data

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

Pair = tuple[str, str]
"""An input and its expected output, as text."""

T = TypeVar("T")


def split_of(key: str, *, seed: int = 0, of: int = 10, valid: int = 1, test: int = 1) -> Split:
    """The split of the example with this key: of every `of`, `valid` and `test` are held out.

    A function of the key and the seed alone: however long a training stream runs, it never
    contains a held-out example.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8, salt=seed.to_bytes(8, "big")).digest()
    place = digest[0] % of
    return "valid" if place < valid else "test" if place < valid + test else "train"


MOST_DRAWS = 10_000
"""So many examples in a row that belong to other splits: there is none for this one."""


def first_of(
    split: Split, draw: Callable[[], T], key: Callable[[T], str], *, seed: int
) -> T | None:
    """The first that is drawn of all that belong to a split; None, if there is none."""
    draws = (draw() for _ in range(MOST_DRAWS))
    return next((drawn for drawn in draws if split_of(key(drawn), seed=seed) == split), None)


def part_of(key: str, *, share: float, seed: int = 0) -> Split:
    """The split of a line of a file: this share of all keys to valid, as much to test."""
    digest = hashlib.blake2b(key.encode(), digest_size=8, salt=seed.to_bytes(8, "big")).digest()
    place = int.from_bytes(digest, "big") / 2**64
    return "valid" if place < share else "test" if place < 2 * share else "train"


def epoch_random(data: Data, split: Split, *, seed: int, epoch: int) -> np.random.Generator:
    """The random numbers of an epoch: its own, or those of the first where data.fresh is false."""
    return np.random.default_rng([seed, epoch if data.fresh else 0, SPLITS.index(split)])
