"""Which part an example belongs to for good: train, valid or test, by a hash."""

import hashlib
from typing import Literal, get_args

import numpy as np

from regard.config import Data

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

Pair = tuple[str, str]
"""What goes in and what should come out, as text."""


def split_of(key: str, *, seed: int = 0, of: int = 10, valid: int = 1, test: int = 1) -> Split:
    """Where the example of this key belongs: of every `of`, so many to valid and so many to test.

    A function of the key and the seed alone: however long a training stream runs, it cannot meet
    a held-out example.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8, salt=seed.to_bytes(8, "big")).digest()
    place = digest[0] % of
    return "valid" if place < valid else "test" if place < valid + test else "train"


def part_of(key: str, *, share: float, seed: int = 0) -> Split:
    """The same for a file: this share of all keys to valid, as much to test."""
    digest = hashlib.blake2b(key.encode(), digest_size=8, salt=seed.to_bytes(8, "big")).digest()
    place = int.from_bytes(digest, "big") / 2**64
    return "valid" if place < share else "test" if place < 2 * share else "train"


def draws(data: Data, split: Split, *, seed: int, epoch: int) -> np.random.Generator:
    """The randomness of an epoch: its own, or always the first one's if none should be fresh."""
    return np.random.default_rng([seed, epoch if data.fresh else 0, SPLITS.index(split)])
