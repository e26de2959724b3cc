"""From pairs of token ids to padded batches: bucketed by length, ordered by (seed, epoch)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.examples import Examples, Ids
from regard.data.tokenizer import OURS, SpecialIds


class Padded(NamedTuple):
    """Rows of token ids filled up to one length, and how many tokens of each are real."""

    tokens: Int[Tensor, "B L"]
    lengths: Int[Tensor, "B"]

    def to(self, device: torch.device) -> "Padded":
        return Padded(
            self.tokens.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True)
        )


TARGETS = "targets"
"""The name of the loss of a task that has only one; a batch gives its counts by such names."""


@dataclass(frozen=True)
class Batch:
    """Source and target, padded at the end; the target as it goes in and as it should come out.

    Teacher forcing: the decoder reads `<s> y` and should predict `y </s>`.
    """

    source: Int[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    tokens: int
    """Target tokens to predict, padding not counted."""
    source_lengths: Int[Tensor, "B"]
    """How many tokens of each source are real."""
    target_lengths: Int[Tensor, "B"]
    """How many tokens of each target are real."""

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        return {TARGETS: self.tokens}

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            self.source.to(device, non_blocking=True),
            self.target_in.to(device, non_blocking=True),
            self.target_out.to(device, non_blocking=True),
            self.tokens,
            self.source_lengths.to(device, non_blocking=True),
            self.target_lengths.to(device, non_blocking=True),
        )

    def rows(self, which: slice) -> "Batch":
        """Some of its rows, padded as they are here."""
        return Batch(
            self.source[which],
            self.target_in[which],
            self.target_out[which],
            tokens=int(self.target_lengths[which].sum()),
            source_lengths=self.source_lengths[which],
            target_lengths=self.target_lengths[which],
        )

    def shares(self, count: int) -> "list[Batch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]


def dealt_out(rows: int, count: int) -> list[slice]:
    """Which rows each of up to so many shares has: neighbours, of like length, are parted.

    Fewer shares where there are not enough rows for a thread each.
    """
    count = max(1, min(count, rows // FEWEST_ROWS))
    return [slice(first, None, count) for first in range(count)]


FEWEST_ROWS = 8
"""Fewer rows than this are not worth a thread of their own."""

Collate = Callable[..., Any]
"""(the rows of each side: sources, targets, …) -> a batch."""


def collate(
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    source_ids: SpecialIds = OURS,
    target_ids: SpecialIds = OURS,
) -> Batch:
    """A batch of these pairs, by the special ids of their tokenizers."""
    source = source_batch(sources, source_ids)
    target_in = padded([[target_ids.first, *target] for target in targets], target_ids)
    target_out = pad([[*target, target_ids.end] for target in targets], padding=target_ids.ignored)
    return Batch(
        source.tokens,
        target_in.tokens,
        target_out,
        tokens=sum(len(target) + 1 for target in targets),
        source_lengths=source.lengths,
        target_lengths=target_in.lengths,
    )


def source_batch(sources: Sequence[Ids], ids: SpecialIds) -> Padded:
    """Sources as the encoder reads them: `x </s>`."""
    return padded([[*source, ids.end] for source in sources], ids)


def padded(rows: Sequence[Ids], ids: SpecialIds = OURS) -> Padded:
    """Rows filled up to one length, and the lengths that they had."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    return Padded(pad(rows, padding=ids.filler), lengths)


def pad(rows: Sequence[Ids], *, padding: int = OURS.filler) -> Int[Tensor, "B L"]:
    """Rows of one length, the shorter ones filled up at the end."""
    longest = max(len(row) for row in rows)
    filled = np.full((len(rows), longest), padding, dtype=np.int64)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return torch.from_numpy(filled)


def cut(
    lengths: Int[np.ndarray, "N 2"],
    *,
    seed: Sequence[int],
    batch_tokens: int | None = None,
    batch_size: int | None = None,
) -> list[Int[np.ndarray, "B"]]:
    """Which examples stand together in each batch, the batches in random order.

    Examples are shuffled, then sorted by length, so that those of one length meet different
    company every epoch; a batch is cut where its padded size, rows × longest side, would pass
    batch_tokens (a single longer example is a batch by itself).
    """
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(lengths))
    longest = lengths.max(axis=1)
    order = shuffled[np.lexsort((lengths[shuffled, 0], longest[shuffled]))]
    if batch_size is not None:
        batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    else:
        assert batch_tokens is not None
        batches, start = [], 0
        for end, example in enumerate(order):
            # Sorted: the newest example is the longest of its batch.
            if end > start and (end - start + 1) * longest[example] > batch_tokens:
                batches.append(order[start:end])
                start = end
        batches.append(order[start:])
    return [batches[i] for i in random.permutation(len(batches))]


WINDOW, BLOCK = 2**18, 2**12
"""Examples that are shuffled and sorted at a time, and those of a chunk, which stay together."""


class BatchStream:
    """The batches of a training run, in order; progress in it is (epoch, batch), two integers.

    Where there are more examples than a window holds, an epoch goes through windows made of
    chunks taken at random from all over the file: memory is needed for one window, and no more.
    """

    def __init__(
        self,
        examples: Callable[[int], Examples],
        collate: Collate = collate,
        *,
        seed: int,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        window: int = WINDOW,
        block: int = BLOCK,
    ) -> None:
        self._examples = examples
        self._collate = collate
        self._seed = seed
        self._batch_tokens = batch_tokens
        self._batch_size = batch_size
        self._window = window
        self._block = block

    def epoch(self, number: int, *, start: int = 0) -> Iterator[Any]:
        """The batches of one epoch, from the start-th on."""
        examples = self._examples(number)
        for batches in self._windows(examples, number):
            for rows, _ in batches[start:]:
                yield self._collate(*examples.rows(rows))
            start = max(0, start - len(batches))

    def largest(self, number: int) -> dict[str, Any]:
        """The batches of an epoch with the longest sources, the longest targets, and both; by size.

        Every target token has as many logits as the vocabulary has tokens: a batch of long sources
        may need less memory than one of long targets.
        """
        examples = self._examples(number)
        largest: dict[int, tuple[int, np.ndarray, str]] = {}
        for window in self._windows(examples, number):
            for rows, (source, target) in window:
                name = f"{len(rows)} rows of up to {source} and {target} tokens"
                for kind, length in enumerate((source, target, source + target)):
                    if kind not in largest or len(rows) * length > largest[kind][0]:
                        largest[kind] = len(rows) * length, rows, name
        return {name: self._collate(*examples.rows(rows)) for _, rows, name in largest.values()}

    def count(self, number: int) -> int:
        """How many batches an epoch has."""
        return sum(len(batches) for batches in self._windows(self._examples(number), number))

    def _windows(
        self, examples: Examples, epoch: int
    ) -> Iterator[list[tuple[Int[np.ndarray, "B"], list[int]]]]:
        """Window after window, the batches of each: their rows, and the longest of either side."""
        if len(examples) <= self._window:
            begins, together = np.zeros(1, dtype=int), 1
            size = len(examples)
        else:
            size = self._block
            random = np.random.default_rng([self._seed, epoch, len(examples)])
            begins = size * random.permutation(math.ceil(len(examples) / size))
            together = max(1, self._window // size)
        for number, first in enumerate(range(0, len(begins), together)):
            chunks = [
                (int(begin), min(int(begin) + size, len(examples)))
                for begin in begins[first : first + together]
            ]
            rows = np.concatenate([np.arange(*chunk) for chunk in chunks])
            lengths = 1 + np.concatenate(  # with the end of each side
                [examples.lengths(*chunk) for chunk in chunks]
            )
            batches = cut(
                lengths,
                seed=[self._seed, epoch, number] if len(begins) > 1 else [self._seed, epoch],
                batch_tokens=self._batch_tokens,
                batch_size=self._batch_size,
            )
            yield [(rows[batch], lengths[batch].max(axis=0).tolist()) for batch in batches]
