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
from regard.data.word_pieces import WordPieces
from regard.nn import Trace
from regard.training.loss import NONE_IS_PADDING, Sums, token_sums

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


def unlabelled(sentences: Sequence[WordPieces], *, ids: SpecialIds = OURS) -> TagBatch:
    """A batch of sentences whose tags are to be found; until then each word has the first."""
    targets = []
    for words in sentences:
        target = [NO_TAG] * len(words.ids)
        for start in words.starts:
            target[start] = 1
        targets.append(target)
    return collate_tags([words.ids for words in sentences], targets, ids=ids)


def at_words(
    model: Callable[..., Any], batch: TagBatch, *, trace: Trace | None = None
) -> Float[Tensor, "B W C"]:
    """The logits at the first piece of each word."""
    logits = model(batch.source, batch.lengths, trace=trace)  # B L C
    places = batch.starts[..., None].expand(-1, -1, logits.size(-1))  # B W C
    return logits.gather(1, places)


def tag_sums(
    model: Any, batch: TagBatch, logits: Float[Tensor, "B W C"], *, smoothing: float = 0.0
) -> Sums:
    """The loss of the tags of a batch, and how many of them have the highest logit."""
    sums = token_sums(
        logits,
        batch.tags,
        tokens=batch.counts[TARGETS],
        smoothing=smoothing,
        padding=NONE_IS_PADDING,
    )
    if model.crf is not None:
        sums[TARGETS].loss = -model.crf(logits, batch.tags, batch.words).sum()
    return sums
