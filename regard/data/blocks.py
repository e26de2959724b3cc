"""Packed blocks: a text as token ids, cut into rows of one length without padding."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from regard.data.batches import TARGETS, dealt_out
from regard.data.tokenizer import SpecialIds


@dataclass(frozen=True)
class BlockBatch:
    """One block of text per row, and the same block shifted by one token."""

    source: Int[Tensor, "B L"]
    target: Int[Tensor, "B L"]
    tokens: int
    """How many targets there are, without padding."""
    lengths: Int[Tensor, "B"]
    """How many tokens of each row are real: all, except where a text ends within a block."""
    documents: Int[Tensor, "B L"] | None = field(default=None, kw_only=True)
    """Which document of its row each token belongs to, if attention must not go past its start."""

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        return {TARGETS: self.tokens}

    def to(self, device: torch.device) -> "BlockBatch":
        return replace(
            self,
            source=self.source.to(device, non_blocking=True),
            target=self.target.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            documents=None if self.documents is None else self.documents.to(device),
        )

    def rows(self, which: slice) -> "BlockBatch":
        """Some of its rows; where batches continue each other, the next go on with the same."""
        lengths = self.lengths[which]
        return replace(
            self,
            source=self.source[which],
            target=self.target[which],
            tokens=int(lengths.sum()),
            lengths=lengths,
            documents=None if self.documents is None else self.documents[which],
        )

    def shares(self, count: int) -> "list[BlockBatch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]


Text = Callable[[], Integer[np.ndarray, "N"]]
"""The token ids of a text; mapped anew where they are on disk, so that memory is freed."""


@dataclass(frozen=True)
class Cutter:
    """Cuts blocks of one length out of a text, which begins after `</s>`.

        text      a b c d e f g h       length 3
        at 0      </s> a b -> a b c     at 3      c d e -> d e f

    What is past the end of the text is padding.
    """

    text: Text
    length: int
    ids: SpecialIds
    mark_documents: bool = False
    """Whether each token is marked with its document, which `</s>` begins and the next one ends."""

    def __len__(self) -> int:
        """How many tokens the text has."""
        return len(self.text())

    def at(self, starts: Int[np.ndarray, "B"], *, length: int | None = None) -> BlockBatch:
        """The blocks whose targets begin at these places; length: if shorter than the others."""
        text = self.text()
        places = starts[:, None] + np.arange(length or self.length)  # B L
        real = places < len(text)
        target = text[np.minimum(places, len(text) - 1)].astype(np.int64)
        source = text[np.clip(places - 1, 0, len(text) - 1)].astype(np.int64)
        source[places == 0] = self.ids.end
        documents = torch.from_numpy((source == self.ids.end).cumsum(axis=1))
        target[~real] = self.ids.ignored
        source[~real] = self.ids.filler
        return BlockBatch(
            torch.from_numpy(source),
            torch.from_numpy(target),
            int(real.sum()),
            lengths=torch.from_numpy(real.sum(axis=1)),
            documents=documents if self.mark_documents else None,
        )

    def in_order(self, *, rows: int) -> Iterator[BlockBatch]:
        """All of the text from left to right, so many blocks at a time: each token once."""
        starts = np.arange(0, len(self), self.length)
        for begin in range(0, len(starts), rows):
            yield self.at(starts[begin : begin + rows])


class BlockStream:
    """The blocks of a text in random order, cut and shuffled anew in every epoch.

    Both are functions of (seed, epoch): where the first block begins, so that no token is always
    the first of its block and none is always left over at the end; and the order of the blocks.
    """

    def __init__(self, cutter: Cutter, *, rows: int, seed: int) -> None:
        self._cutter = cutter
        self._rows = rows
        self._seed = seed

    def epoch(self, number: int, *, start: int = 0) -> Iterator[BlockBatch]:
        """The batches of one epoch, from the start-th on."""
        blocks, left = self._blocks()
        random = np.random.default_rng([self._seed, number])
        first = random.integers(min(self._cutter.length, left + 1))
        order = np.arange(blocks, dtype=np.uint32)  # all of a gigabyte of text, in a few megabytes
        random.shuffle(order)
        for begin in range(start * self._rows, blocks, self._rows):
            numbers = order[begin : begin + self._rows].astype(np.int64)
            yield self._cutter.at(first + self._cutter.length * numbers)

    def largest(self, number: int) -> dict[str, BlockBatch]:
        """One batch: all have the same size, except the last."""
        return {f"{self._rows} rows of {self._cutter.length} tokens": next(self.epoch(number))}

    def count(self, number: int) -> int:
        """How many batches an epoch has."""
        return math.ceil(self._blocks()[0] / self._rows)

    def _blocks(self) -> tuple[int, int]:
        """How many blocks an epoch has, wherever the first begins, and the tokens left over."""
        tokens, length = len(self._cutter), self._cutter.length
        blocks = max(1, (tokens - length + 1) // length)
        return blocks, max(0, tokens - blocks * length)
