"""Digits to sort, copy and reverse: sequences made on the fly from a seed, in text form."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle

import numpy as np

from regard.config import Data
from regard.data.splits import Pair, Split, epoch_random, first_of
from regard.system.errors import UserError

SHORTEST = 2


def descending(random: np.random.Generator, longest: int) -> list[int]:
    """Digits in descending order: 9 7 7 4."""
    return sorted(with_repeats(random, longest), reverse=True)


def permutation(random: np.random.Generator, longest: int) -> list[int]:
    """All ten digits, or as many as fit, shuffled."""
    return random.permutation(10)[:longest].tolist()


def with_repeats(random: np.random.Generator, longest: int) -> list[int]:
    """Any digits, at least 2."""
    return random.integers(0, 10, random.integers(SHORTEST, longest + 1)).tolist()


KINDS = (descending, permutation, with_repeats)

TASKS: dict[str, Callable[[list[int]], list[int]]] = {
    "sort": sorted,
    "copy": list,
    "reverse": lambda digits: digits[::-1],
}
"""The function of the digits that is to be learned, by the generator's name."""


def stream(task: str, data: Data, split: Split, *, seed: int, epoch: int) -> Iterator[Pair]:
    """Endless pairs of one split: a function of (seed, epoch), each of the three kinds in turn."""
    if data.max_length < SHORTEST:
        raise UserError(
            f"data.max_length={data.max_length} is less than the {SHORTEST} digits of the shortest "
            f"sequence that {task} makes."
        )
    random = epoch_random(data, split, seed=seed, epoch=epoch)
    for kind in cycle(KINDS):
        draw = partial(kind, random, data.max_length)
        digits = first_of(split, draw, _text, seed=data.split_seed)
        if digits is None:
            raise UserError(
                f"data.max_length={data.max_length} with data.split_seed={data.split_seed} leaves "
                f"{split} without any sequence of one kind ({kind.__name__.replace('_', ' ')}): "
                f"choose a larger max_length, or another split_seed."
            )
        yield _text(digits), _text(TASKS[task](digits))


def _text(digits: list[int]) -> str:
    return " ".join(map(str, digits))
