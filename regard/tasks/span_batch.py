"""A batch of questions on windows of texts, and the best answers in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from regard.data.batches import TARGETS, dealt_out, pad, padded
from regard.data.examples import Ids
from regard.data.frame import segments_of
from regard.data.tokenizer import OURS, SpecialIds
from regard.models import SpanLogits
from regard.training.loss import NONE_IS_PADDING, Sums, cross_entropy


@dataclass(frozen=True)
class SpanBatch:
    """Padded windows, and the first and last token of the answer; 0, 0 where there is none."""

    source: Int[Tensor, "B L"]
    lengths: Int[Tensor, "B"]
    """How many tokens of each window are real."""
    segments: Int[Tensor, "B L"]
    """0 for the question, 1 for the context."""
    first: Int[Tensor, "B"]
    last: Int[Tensor, "B"]

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name: one per window."""
        return {TARGETS: len(self.source)}

    def to(self, device: torch.device) -> "SpanBatch":
        return SpanBatch(*(part.to(device, non_blocking=True) for part in vars(self).values()))

    def rows(self, which: slice) -> "SpanBatch":
        """Some of its rows, padded as they are here."""
        return SpanBatch(*(part[which] for part in vars(self).values()))

    def shares(self, count: int) -> "list[SpanBatch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]


def collate_spans(
    sources: Sequence[Ids], targets: Sequence[Ids], *, ids: SpecialIds = OURS
) -> SpanBatch:
    """A batch of these windows; a target is the first and the last token of its answer."""
    return SpanBatch(
        *padded(sources, ids),
        pad([segments_of(row, ids) for row in sources], padding=0),
        torch.tensor([first for first, _ in targets]),
        torch.tensor([last for _, last in targets]),
    )


def span_sums(logits: SpanLogits, batch: SpanBatch) -> Sums:
    """½ Σ (−log p(first) − log p(last)) over windows; right are those with both.

    p is a softmax over the tokens of a window, without padding (Devlin et al. 2019, §4.2).
    """
    places = torch.arange(batch.source.size(1), device=batch.source.device)
    padding = places >= batch.lengths[:, None]  # B L
    start, end = (part.float().masked_fill(padding, -torch.inf) for part in logits)
    loss = cross_entropy(start, batch.first, padding=NONE_IS_PADDING)
    loss = loss + cross_entropy(end, batch.last, padding=NONE_IS_PADDING)
    right = (start.argmax(dim=1) == batch.first) & (end.argmax(dim=1) == batch.last)
    return Sums.of(loss / 2, len(batch.source), right.sum())


class TokenSpan(NamedTuple):
    """Tokens first, …, last of a window as an answer."""

    score: float
    """The logit of the first as a beginning and of the last as an end."""
    first: int
    last: int


@torch.no_grad()
def best_spans(
    logits: SpanLogits,
    begins: Sequence[int],
    ends: Sequence[int],
    *,
    longest: int,
    count: int,
) -> list[list[TokenSpan]]:
    """The spans with the highest scores in each row, at most `longest` tokens long.

    begins, ends: where the context begins, and where it ends, in each row.
    """
    L = logits.start.size(1)
    places = torch.arange(L, device=logits.start.device)
    first, end = (torch.tensor(edge, device=places.device)[:, None] for edge in (begins, ends))
    outside = (places < first) | (places >= end)  # B L
    starts, lasts = (part.float().masked_fill(outside, -torch.inf) for part in logits)
    longest = min(longest, L)
    lasts = F.pad(lasts, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)  # B L A
    scores = (starts[:, :, None] + lasts).flatten(1)  # B L·A
    top = scores.topk(min(count, scores.size(1)))
    return [
        [
            TokenSpan(score, place // longest, place // longest + place % longest)
            for score, place in zip(row_scores, row_places, strict=True)
            if score > -torch.inf
        ]
        for row_scores, row_places in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]
