"""Running text: the lines of a file, one after another, in batches that continue each other."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.batches import TARGETS
from regard.data.lines import read_text
from regard.data.source import Source
from regard.data.tokenizer import SpecialIds
from regard.system.errors import UserError


@dataclass
class TextSource(Source):
    """The text of one split: the lines of a file, or the sources of a generator."""

    def lines(self) -> list[str]:
        """Every line; empty lines too, which are part of a text."""
        if self.generated:
            return list(dict.fromkeys(source for source, _ in self.generate()))
        self.check_file()
        lines = list(read_text(self.path))
        if not any(line.split() for line in lines):
            raise UserError(f"{self.path}: the file contains no text.")
        return lines


@dataclass(frozen=True)
class TextBatch:
    """One chunk of text per row, and the same chunk shifted by one token."""

    source: Int[Tensor, "B L"]
    target: Int[Tensor, "B L"]
    tokens: int
    """How many targets there are, without padding."""
    first: bool
    """Whether the text begins here; if not, each row continues that of the last batch."""
    lengths: Int[Tensor, "B"]
    """How many tokens of each row are real."""

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        return {TARGETS: self.tokens}

    def to(self, device: torch.device) -> "TextBatch":
        return TextBatch(
            self.source.to(device, non_blocking=True),
            self.target.to(device, non_blocking=True),
            self.tokens,
            self.first,
            self.lengths.to(device, non_blocking=True),
        )

    def rows(self, which: slice) -> "TextBatch":
        """Some of its rows; the batches that follow go on with the same ones."""
        lengths = self.lengths[which]
        tokens = int(lengths.sum())
        return TextBatch(self.source[which], self.target[which], tokens, self.first, lengths)

    def shares(self, count: int) -> "list[TextBatch]":
        """The batch itself: the state that it leaves for the next one is of all its rows."""
        return [self]


class TextStream:
    """One long text as a few rows side by side, read from left to right in chunks.

        text       a b c d e f g h i j k l …
        rows       a b c | d e f |           batch 1: (a b c, g h i), batch 2: (d e f, j k l)
                   g h i | j k l |           row 1 of batch 2 goes on where row 1 of batch 1 ended

    Every epoch reads the same text in the same order. The text begins after the end of a line.
    """

    def __init__(
        self,
        text: Callable[[], Int[np.ndarray, "N"]],
        *,
        rows: int,
        length: int,
        ids: SpecialIds,
    ) -> None:
        self._text = text
        self._ids = ids
        self._rows = rows
        self._length = length

    def epoch(self, number: int, *, start: int = 0) -> Iterator[TextBatch]:
        """The batches of one epoch, from the start-th on."""
        sources, targets, lengths = self._cut()
        for begin in range(start * self._length, sources.shape[1], self._length):
            source = torch.from_numpy(sources[:, begin : begin + self._length])
            target = torch.from_numpy(targets[:, begin : begin + self._length])
            real = torch.from_numpy(np.clip(lengths - begin, 0, source.size(1)))
            yield TextBatch(source, target, int(real.sum()), first=begin == 0, lengths=real)

    def largest(self, number: int) -> dict[str, TextBatch]:
        """One batch: all have the same size, except the last."""
        return {f"{self._rows} rows of {self._length} tokens": next(self.epoch(number))}

    def count(self, number: int) -> int:
        """How many batches an epoch has."""
        return math.ceil(self._cut()[0].shape[1] / self._length)

    def _cut(
        self,
    ) -> tuple[Int[np.ndarray, "B L"], Int[np.ndarray, "B L"], Int[np.ndarray, "B"]]:
        """The whole text in rows, the same one token on, and how much of each row is real.

        The last rows are filled up with padding.
        """
        targets = self._text()
        sources = np.concatenate([[self._ids.end], targets[:-1]])
        columns = math.ceil(len(targets) / self._rows)
        shape = (self._rows, columns)
        empty = (0, columns * self._rows - len(targets))
        return (
            np.pad(sources, empty, constant_values=self._ids.filler).reshape(shape),
            np.pad(targets, empty, constant_values=self._ids.ignored).reshape(shape),
            np.clip(len(targets) - columns * np.arange(self._rows), 0, columns),
        )
