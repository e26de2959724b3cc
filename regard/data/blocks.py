"""Packed blocks: a text as token ids, cut into rows of one length without padding."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.batches import TARGETS, dealt_out
from regard.data.tokenizer import SpecialIds


@dataclass(frozen=True)
class BlockBatch:
    """One block of text per row, and the same block shifted by one token."""

    source: Int[Tensor, "B L"]
    target: Int[Tensor, "B L"]
    lengths: Int[Tensor, "B"]
    """How many tokens of each row are real: all, except where a text ends within a block."""

    @property
    def tokens(self) -> int:
        """How many targets there are."""
        return int(self.lengths.sum())

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        return {TARGETS: self.tokens}

    def to(self, device: torch.device) -> "BlockBatch":
        return BlockBatch(
            self.source.to(device, non_blocking=True),
            self.target.to(device, non_blocking=True),
            self.lengths,  # stays where it can be counted without waiting
        )

    def rows(self, which: slice) -> "BlockBatch":
        """Some of its rows."""
        return BlockBatch(self.source[which], self.target[which], self.lengths[which])

    def shares(self, count: int) -> "list[BlockBatch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]


Text = Callable[[], Int[np.ndarray, "N"]]
"""The token ids of a text; mapped anew where they are on disk, so that memory is freed."""


def blocks_at(
    starts: Int[np.ndarray, "B"], text: Int[np.ndarray, "N"], *, length: int, ids: SpecialIds
) -> BlockBatch:
    """The blocks whose targets begin at these places of a text, which begins after `</s>`.

        text      a b c d e f g h       length 3
        block 0   </s> a b -> a b c     block 3   c d e -> d e f

    What is past the end of the text is padding.
    """
    places = starts[:, None] + np.arange(length)  # B L
    real = places < len(text)
    target = text[np.minimum(places, len(text) - 1)].astype(np.int64)
    source = text[np.clip(places - 1, 0, len(text) - 1)].astype(np.int64)
    source[places == 0] = ids.end
    target[~real] = ids.ignored
    source[~real] = ids.filler
    return BlockBatch(*map(torch.from_numpy, (source, target, real.sum(axis=1))))


class BlockStream:
    """The blocks of a text in random order, cut and shuffled anew in every epoch.

    Both are functions of (seed, epoch): where the first block begins, so that no token is always
    the first of its block and none is always left over at the end; and the order of the blocks.
    """

    def __init__(self, text: Text, *, rows: int, length: int, ids: SpecialIds, seed: int) -> None:
        self._text = text
        self._rows = rows
        self._length = length
        self._ids = ids
        self._seed = seed

    def epoch(self, number: int, *, start: int = 0) -> Iterator[BlockBatch]:
        """The batches of one epoch, from the start-th on."""
        blocks, left = self._blocks()
        random = np.random.default_rng([self._seed, number])
        first = random.integers(min(self._length, left + 1))
        starts = first + self._length * random.permutation(blocks)
        for begin in range(start * self._rows, blocks, self._rows):
            yield self._batch(starts[begin : begin + self._rows])

    def _batch(self, starts: Int[np.ndarray, "B"]) -> BlockBatch:
        return blocks_at(starts, self._text(), length=self._length, ids=self._ids)

    def largest(self, number: int) -> dict[str, BlockBatch]:
        """One batch: all have the same size, except the last."""
        return {f"{self._rows} rows of {self._length} tokens": next(self.epoch(number))}

    def count(self, number: int) -> int:
        """How many batches an epoch has."""
        return -(-self._blocks()[0] // self._rows)

    def _blocks(self) -> tuple[int, int]:
        """How many blocks an epoch has, wherever the first begins, and the tokens left over."""
        tokens = len(self._text())
        blocks = max(1, (tokens - self._length + 1) // self._length)
        return blocks, max(0, tokens - blocks * self._length)


def blocks_in_order(text: Text, *, rows: int, length: int, ids: SpecialIds) -> Iterator[BlockBatch]:
    """All of a text from left to right in blocks, each token a target once."""
    starts = np.arange(0, len(text()), length)
    for begin in range(0, len(starts), rows):
        yield blocks_at(starts[begin : begin + rows], text(), length=length, ids=ids)
