"""TextBatch: texts that are read whole, each with its class or its score."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batches import TARGETS, dealt_out, padded
from regard.data.examples import Ids
from regard.data.frame import segment_rows
from regard.data.numbers_in_ids import number_in
from regard.data.tokenizer import OURS, SpecialIds


@dataclass(frozen=True)
class TextBatch:
    """Padded texts, and what should come of each."""

    source: Int[Tensor, "B L"]
    lengths: Int[Tensor, "B"]
    """How many tokens of each text are real."""
    targets: Int[Tensor, "B"] | Float[Tensor, "B"]
    """The number of a class, or a score."""
    segments: Int[Tensor, "B L"] | None = None
    """Which of two texts each token belongs to; None: a row has one, or nobody asks."""

    @property
    def tokens(self) -> int:
        """How many targets there are: one per row."""
        return len(self.targets)

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        return {TARGETS: self.tokens}

    def to(self, device: torch.device) -> "TextBatch":
        return TextBatch(
            self.source.to(device, non_blocking=True),
            self.lengths.to(device, non_blocking=True),
            self.targets.to(device, non_blocking=True),
            None if self.segments is None else self.segments.to(device, non_blocking=True),
        )

    def rows(self, which: slice) -> "TextBatch":
        """Some of its rows, padded as they are here."""
        segments = None if self.segments is None else self.segments[which]
        return TextBatch(self.source[which], self.lengths[which], self.targets[which], segments)

    def shares(self, count: int) -> "list[TextBatch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]


def collate_classes(
    sources: Sequence[Ids], targets: Sequence[Ids], *, ids: SpecialIds = OURS, paired: bool = False
) -> TextBatch:
    """A batch of these rows; a target is the number of a class.

    paired: a row has two texts, and the encoder asks which is which.
    """
    classes = torch.tensor([target[0] for target in targets])
    return _batch(sources, classes, ids=ids, paired=paired)


def collate_scores(
    sources: Sequence[Ids], targets: Sequence[Ids], *, ids: SpecialIds = OURS, paired: bool = False
) -> TextBatch:
    """The same; a target is a number, kept in two ids."""
    scores = torch.tensor([number_in(target) for target in targets])
    return _batch(sources, scores, ids=ids, paired=paired)


def _batch(sources: Sequence[Ids], targets: Tensor, *, ids: SpecialIds, paired: bool) -> TextBatch:
    rows = padded(sources, ids)
    segments = segment_rows(rows.tokens, rows.lengths, ids) if paired else None
    return TextBatch(rows.tokens, rows.lengths, targets, segments)
