"""The rows of one split: from a generator, or from files."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from regard.data.formats import Files, find_files
from regard.data.generators import GENERATORS, Endless
from regard.data.rows import Field, Layout, Row
from regard.data.source import NAMED, Source, hash_of
from regard.data.splits import Pair, part_of
from regard.data.tally import Tally
from regard.system.errors import UserError

LEARNED_FROM = 500_000
"""A tokenizer is learned from this many lines at most: it keeps every word of them in memory."""

MOST_SHOWN = 12
"""A message names this many classes at most."""


def listed_classes(classes: Collection[str]) -> str:
    """The first of the classes, to show in a message."""
    return ", ".join(list(classes)[:MOST_SHOWN]) + (", …" if len(classes) > MOST_SHOWN else "")


PAIR = (Field("source"), Field("target"))


@dataclass
class RowSource(Source):
    """Where the rows of one split come from."""

    fields: tuple[Field, ...] = PAIR
    """What a row has; each is named by the key of `data` that says in which column it is."""
    every: int = field(default=1, init=False)
    """A tokenizer is learned from one line in this many."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of each field, as the configuration gives it."""
        return tuple(getattr(self.data, field.name) for field in self.fields)

    @cached_property
    def files(self) -> Files:
        """One file with all fields, or one file per field."""
        files = find_files(self.path, Layout(self.fields, self.columns))
        if files is None:
            places = [str(self.path)]
            if all(self.columns):
                places.append(" and ".join(f"{self.path}.{column}" for column in self.columns))
            raise UserError(
                f"data.{self.split}={self.name!r} is neither {NAMED} nor a file: there is none at "
                f"{', nor '.join(places)} (--data says where the files are)."
            )
        for path in files.paths:
            self.refuse_pipe(path)
        return files

    @property
    def fingerprint(self) -> str:
        if self.generated:
            return self.name
        return "+".join(hash_of(path) for path in self.files.paths)

    @property
    def endless(self) -> bool:
        """Whether every epoch has new examples."""
        return self.split == "train" and isinstance(GENERATORS.get(self.name), Endless)

    def new_tally(self) -> Tally:
        """Counts for one reading of this source, all zero."""
        return Tally(self.data.on_bad_line)

    def rows(self, *, seed: int = 0, epoch: int = 0, tally: Tally | None = None) -> Iterator[Row]:
        """The lines that can be used, in order, as they come from disk.

        seed and epoch: of a generator that makes new examples; a file has the same in every one.
        tally: counts the lines that are left out, if they are not refused.
        """
        if not self.generated:
            tally = self.new_tally() if tally is None else tally
            yield from filter(self._belongs, tally.good(self.files.records()))
            return
        generator = GENERATORS[self.name]
        pairs = (
            generator.training(self.data, seed=seed, epoch=epoch)
            if self.endless
            else self.generate()
        )
        yield from self._generated_rows(pairs)

    def _generated_rows(self, pairs: Sequence[Pair]) -> Iterator[Row]:
        """A generator makes a text and what should come of it: for other fields it is no source."""
        names = [field.name for field in self.fields]
        if len(names) > 2 or any(field.kind not in ("text", "label") for field in self.fields):
            raise UserError(
                f"data.{self.split}={self.name!r} is a generator of pairs of texts, and this task "
                f"reads {', '.join(names)}: name a file."
            )
        place = Path(self.name)
        for number, pair in enumerate(pairs, start=1):
            yield Row(place, number, dict(zip(names, pair, strict=False)))

    def to_learn_from(self) -> Iterator[Row]:
        """The lines that a tokenizer is learned from: all, or every n-th of a large file."""
        if not self.generated:
            self.every = max(1, math.ceil(self._count / LEARNED_FROM))
        yield from islice(self.rows(), 0, None, self.every)

    @cached_property
    def _count(self) -> int:
        """How many lines can be used."""
        return sum(1 for _ in self.rows())

    def _belongs(self, row: Row) -> bool:
        """Whether a line is of this split, where one file holds several: no input is in two."""
        share, seed = self.data.held_out, self.data.split_seed
        if not share or not self.of_training:
            return True
        key = row.source if isinstance(row.source, str) else " ".join(row.source)
        return self.split == part_of(key, share=share, seed=seed)

    def place(self, number: int, row: Row | None = None) -> Path:
        """The file that holds this field, counted from 0; in a folder, that of the row."""
        return row.file if row and not self.files.parallel else self.files.place(number)
