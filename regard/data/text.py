"""Running text in batches that continue each other: for models that carry a state."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.data.blocks import BlockBatch, Cutter


@dataclass(frozen=True)
class TextBatch(BlockBatch):
    """One chunk of text per row; each row may go on where that of the last batch ended."""

    first: bool
    """Whether the text begins here; if not, each row continues that of the last batch."""

    def shares(self, count: int) -> "list[TextBatch]":  # type: ignore[override]
        """The batch itself: the state that it leaves for the next one is of all its rows."""
        return [self]


class TextStream:
    """One long text as a few rows side by side, read from left to right in chunks.

        text       a b c d e f g h i j k l …
        rows       a b c | d e f |           batch 1: (a b c, g h i), batch 2: (d e f, j k l)
                   g h i | j k l |           row 1 of batch 2 goes on where row 1 of batch 1 ended

    Every epoch reads the same text in the same order. The text begins after the end of a line.
    """

    def __init__(self, cutter: Cutter, *, rows: int) -> None:
        self._cutter = cutter
        self._rows = rows

    def epoch(self, number: int, *, start: int = 0) -> Iterator[TextBatch]:
        """The batches of one epoch, from the start-th on."""
        columns, length = self._columns, self._cutter.length
        rows = columns * np.arange(self._rows)
        for begin in range(start * length, columns, length):
            chunk = self._cutter.at(rows + begin, length=min(length, columns - begin))
            yield TextBatch(**vars(chunk), first=begin == 0)

    def largest(self, number: int) -> dict[str, TextBatch]:
        """One batch: all have the same size, except the last."""
        return {f"{self._rows} rows of {self._cutter.length} tokens": next(self.epoch(number))}

    def count(self, number: int) -> int:
        """How many batches an epoch has."""
        return math.ceil(self._columns / self._cutter.length)

    @property
    def _columns(self) -> int:
        """How long the rows are; the last ones are filled up with padding."""
        return math.ceil(len(self._cutter) / self._rows)
