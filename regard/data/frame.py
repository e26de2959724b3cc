"""How an encoder reads one text or two: `[CLS] a [SEP]`, `[CLS] a [SEP] b [SEP]`."""

from collections.abc import Sequence

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
