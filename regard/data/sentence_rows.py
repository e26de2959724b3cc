"""Rows of whole sentences: the documents of a text, packed for a model that reads them whole."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from regard.data.examples import Examples, Ids, Side

SIDES = ("text", "starts", "documents")
"""The token ids of a row; where each of its sentences begins; and 1 if a document ends there."""

PackedRow = tuple[None, Ids, Ids, Ids]
"""What a corpus is made of: a row's place, which is not kept, and its sides."""


def packed(
    sentences: Iterable[tuple[Ids, bool]], *, room: int, longest: int
) -> Iterator[PackedRow]:
    """Sentences, one after another, in rows of at most `room` tokens of one document.

        room 8      a a a | b b | c c c c | d d ‖ e e …      (‖: the end of a document)
        rows        a a a b b,  c c c c d d,  e e …

    sentences: token ids, and whether the document ends there. longest: one that has more tokens is
    cut into several; where this is half of the room, a row has two at least unless its document
    ends.
    """
    row, starts = Ids(), Ids()
    for sentence, ends in sentences:
        for begin in range(0, len(sentence), longest):
            part = sentence[begin : begin + longest]
            if row and len(row) + len(part) > room:
                yield None, row, starts, []
                row, starts = [], []
            starts.append(len(row))
            row = row + part
        if ends and row:
            yield None, row, starts, [1]
            row, starts = [], []
    if row:
        yield None, row, starts, [1]


@dataclass(frozen=True)
class Place:
    """A row of a text, cut into its sentences."""

    sentences: list[Ids]
    ends_document: bool


class SentenceRows:
    """Packed rows, and which of them are of one document; mapped anew for every batch."""

    def __init__(self, examples: Examples) -> None:
        self._text, self._starts, self._documents = examples.sides()

    def __len__(self) -> int:
        return len(self._text.ends)

    def row(self, number: int) -> Place:
        """A row by its number."""
        (ids,), (starts,) = _one(self._text, number), _one(self._starts, number)
        ends = [*starts[1:], len(ids)]
        sentences = [ids[begin:end] for begin, end in zip(starts, ends, strict=True)]
        return Place(sentences, bool(_one(self._documents, number)[0]))

    def document(self, number: int) -> tuple[int, int]:
        """The first row of the document that a row is of, and the one after its last."""
        ends = self._documents.ends  # how many documents have ended with each row
        before = int(ends[number - 1]) if number else 0
        first = int(np.searchsorted(ends, before)) + 1 if before else 0
        return first, int(np.searchsorted(ends, before + 1)) + 1

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return int(self._documents.ends[-1])

    @property
    def pairs(self) -> int:
        """How many rows have two sentences or more."""
        return int((np.diff(self._starts.ends, prepend=0) > 1).sum())


def _one(side: Side, number: int) -> list[Ids]:
    return side.rows(np.array([number]))
