"""Pairs of texts, source and target: from a generator, or from files."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from regard.data.generators import GENERATORS, Endless
from regard.data.records import Columns, Files, Row, find_files
from regard.data.source import Source, hash_of
from regard.data.splits import part_of
from regard.data.tally import Tally
from regard.system.errors import UserError

LEARNED_FROM = 500_000
"""Lines that a tokenizer is learned from, at most: it keeps every word of them in memory."""

MOST_SHOWN = 12
"""Classes named in a message."""


def listed_classes(classes: Collection[str]) -> str:
    """The first of the classes, to show in a message."""
    return ", ".join(list(classes)[:MOST_SHOWN]) + (", …" if len(classes) > MOST_SHOWN else "")


@dataclass
class PairSource(Source):
    """Where the pairs of one split come from, and which lines of it were left out."""

    names: Columns = ("source", "target")
    """What the two sides are called: the keys of `data` that say where they stand."""
    tally: Tally = field(init=False)
    every: int = field(default=1, init=False)
    """Of how many lines one was taken to learn a tokenizer from."""

    def __post_init__(self) -> None:
        self.tally = Tally(self.data.on_bad_line)
        if self.generated and self.data.held_out:
            raise UserError(
                f"data.held_out is of a file; the generator {self.name} holds out its own examples."
            )

    @property
    def columns(self) -> Columns:
        first, second = (getattr(self.data, name) for name in self.names)
        return first, second

    @cached_property
    def files(self) -> Files:
        """The file of a table, or the two of parallel text."""
        found = find_files(self.path, self.columns, self.names)
        if found is None:
            places = [str(self.path)]
            if all(self.columns):
                places.append(" and ".join(f"{self.path}.{column}" for column in self.columns))
            raise UserError(
                f"data.{self.split}={self.name!r} is neither a generator ({', '.join(GENERATORS)}) "
                f"nor a file: there is none at {', nor '.join(places)} (--data says where the "
                f"files are)."
            )
        return found

    @property
    def fingerprint(self) -> str:
        if self.generated:
            return self.name
        return "+".join(hash_of(path) for path in self.files.paths)

    @property
    def endless(self) -> bool:
        """Whether every epoch has new ones."""
        return self.split == "train" and isinstance(GENERATORS.get(self.name), Endless)

    def rows(self, *, seed: int = 0, epoch: int = 0) -> Iterator[Row]:
        """The lines that can be used, in order, as they come from disk; the tally begins anew.

        seed and epoch: of a generator that makes new examples; a file has the same in every one.
        """
        self.tally.begin()
        if not self.generated:
            yield from filter(self._belongs, self.tally.good(self.files.records()))
            return
        generator = GENERATORS[self.name]
        pairs = (
            generator.training(self.data, seed=seed, epoch=epoch)
            if self.endless
            else self.generate()
        )
        yield from (Row(number, *pair) for number, pair in enumerate(pairs, start=1))

    def to_learn_from(self) -> Iterator[Row]:
        """The lines that a tokenizer is learned from: all, or of a large file every n-th."""
        if not self.generated:
            self.every = max(1, math.ceil(self._count / LEARNED_FROM))
        yield from islice(self.rows(), 0, None, self.every)

    @cached_property
    def _count(self) -> int:
        """The lines that can be used."""
        return sum(1 for _ in self.rows())

    def _belongs(self, row: Row) -> bool:
        """Whether a line is of this part, where one file holds several: no source is in two."""
        share, seed = self.data.held_out, self.data.split_seed
        if not share or self.path != Path(self.data.directory) / self.data.train:
            return True
        return self.split == part_of(row.source, share=share, seed=seed)

    def place(self, side: int) -> Path:
        """The file that a side of the pairs stands in."""
        return self.files.paths[side if len(self.files.paths) == 2 else 0]
