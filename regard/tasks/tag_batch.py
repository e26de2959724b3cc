"""A batch of sentences of words with tags, and what a model has to say at its words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batches import TARGETS, dealt_out, pad, padded
from regard.data.examples import Ids
from regard.data.tokenizer import OURS, SpecialIds
from regard.nn import Trace
from regard.training.loss import NONE_IS_PADDING

NO_TAG = 0
"""In the corpus, the target of a token that is not the first of a word; a tag n is n + 1."""


@dataclass(frozen=True)
class TagBatch:
    """Padded sentences, where each word begins in them, and the tag of each word."""

    source: Int[Tensor, "B L"]
    lengths: Int[Tensor, "B"]
    """How many tokens of each sentence are real."""
    starts: Int[Tensor, "B W"]
    """Where the first piece of each word stands; 0 at padding."""
    tags: Int[Tensor, "B W"]
    """−100 at padding."""
    words: Int[Tensor, "B"]
    """How many words each sentence has."""

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name: one per word."""
        return {TARGETS: int(self.words.sum())}

    def to(self, device: torch.device) -> "TagBatch":
        return TagBatch(*(part.to(device, non_blocking=True) for part in vars(self).values()))

    def rows(self, which: slice) -> "TagBatch":
        """Some of its rows, padded as they are here."""
        return TagBatch(*(part[which] for part in vars(self).values()))

    def shares(self, count: int) -> "list[TagBatch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]


def collate_tags(
    sources: Sequence[Ids], targets: Sequence[Ids], *, ids: SpecialIds = OURS
) -> TagBatch:
    """A batch of these sentences; a target has a number for every token (`NO_TAG`)."""
    starts = [[place for place, tag in enumerate(row) if tag != NO_TAG] for row in targets]
    tags = [[tag - 1 for tag in row if tag != NO_TAG] for row in targets]
    return TagBatch(
        *padded(sources, ids),
        pad(starts, padding=0),
        pad(tags, padding=NONE_IS_PADDING),
        torch.tensor([len(row) for row in tags]),
    )


def at_words(
    model: Callable[..., Any], batch: TagBatch, *, trace: Trace | None = None
) -> Float[Tensor, "B W C"]:
    """The logits at the first piece of each word."""
    logits = model(batch.source, batch.lengths, trace=trace)  # B L C
    places = batch.starts[..., None].expand(-1, -1, logits.size(-1))  # B W C
    return logits.gather(1, places)
