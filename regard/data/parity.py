"""Parity: is the sum of the numbers even or odd?

If one number is misread or one step forgotten, the answer is no better than a coin's. A nearly
right answer earns nothing, which makes this small task hard to learn.
"""

from collections.abc import Iterator

import numpy as np

from regard.config import Data
from regard.data.splits import Pair, Split, epoch_random, split_of
from regard.system.errors import UserError

NUMBERS = 200
"""The numbers are 0 to 199."""

SHORTEST = 4

LONG = 200
"""The length of the `parity-long` sequences, ten times what is trained on."""


def stream(data: Data, split: Split, *, seed: int, epoch: int) -> Iterator[Pair]:
    """Endless sequences of 4 to max_length numbers; in training, shorter ones come first.

    With a curriculum of n epochs, epoch e has lengths from 1 up to a bound that grows evenly from
    1 to max_length until epoch n.
    """
    if data.max_length < SHORTEST:
        raise UserError(
            f"data.max_length={data.max_length} is less than the {SHORTEST} numbers of the "
            f"shortest sequence that parity makes."
        )
    shortest, longest = SHORTEST, data.max_length
    if split == "train" and epoch < data.curriculum:
        shortest, longest = 1, max(1, longest * (epoch + 1) // data.curriculum)
    return _sequences(
        data, split, shortest, longest, epoch_random(data, split, seed=seed, epoch=epoch)
    )


def long_stream(data: Data, split: Split, *, seed: int, epoch: int) -> Iterator[Pair]:
    """Endless sequences of 200 numbers."""
    return _sequences(data, split, LONG, LONG, epoch_random(data, split, seed=seed, epoch=epoch))


def _sequences(
    data: Data, split: Split, shortest: int, longest: int, random: np.random.Generator
) -> Iterator[Pair]:
    while True:
        numbers = random.integers(0, NUMBERS, random.integers(shortest, longest + 1))
        text = " ".join(map(str, numbers))
        # Single numbers are the alphabet: all of them are for training.
        if len(numbers) == 1 or split_of(text, seed=data.split_seed) == split:
            yield text, "odd" if numbers.sum() % 2 else "even"
