"""How an encoder reads one text or two: `[CLS] a [SEP]`, `[CLS] a [SEP] b [SEP]`."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.examples import Ids
from regard.data.tokenizer import SpecialIds

FRAME = 2
"""Tokens that a frame adds to one text; a second text has one more."""


def framed(text: Ids, special: SpecialIds) -> Ids:
    """start text end: BERT's [CLS] and [SEP] (Devlin et al. 2019, §3)."""
    return [special.first, *text, special.end]


def framed_pair(first: Ids, second: Ids, special: SpecialIds) -> Ids:
    """start first end second end."""
    return [*framed(first, special), *second, special.end]


def segments_of(row: Sequence[int], special: SpecialIds) -> list[int]:
    """0 for each token up to the first end, that one included, and 1 for those after it."""
    end = list(row).index(special.end)
    return [0] * (end + 1) + [1] * (len(row) - end - 1)


def row_of(texts: Sequence[Ids], special: SpecialIds, *, frame: bool) -> Ids:
    """One text or two as a row: in their frame, or as they are with the end between two."""
    first, *others = texts
    if frame:
        return framed_pair(first, others[0], special) if others else framed(first, special)
    return [*first, special.end, *others[0]] if others else first


def room_for(texts: int, most: int, *, frame: bool) -> int:
    """How many tokens so many texts may have together in a row of `most`."""
    return most - (FRAME if frame else 0) - (texts - 1)


def beginnings(texts: Sequence[Ids], room: int) -> list[Ids]:
    """The first tokens of one text or two, `room` at most; of two, the longer is cut first."""
    if sum(map(len, texts)) <= room:
        return list(texts)
    if len(texts) == 1:
        return [texts[0][:room]]
    first, second = (len(text) for text in texts)
    half = room // 2
    kept = min(second, max(half, room - first))
    return [texts[0][: room - kept], texts[1][:kept]]


def segment_rows(
    tokens: Int[Tensor, "B L"], lengths: Int[Tensor, "B"], special: SpecialIds
) -> Int[Tensor, "B L"]:
    """`segments_of` for each row of a batch; 0 in padding."""
    is_end = tokens == special.end
    ends_before = is_end.cumsum(dim=1) - is_end.long()
    real = torch.arange(tokens.size(1), device=tokens.device) < lengths[:, None]
    return ((ends_before > 0) & real).long()
