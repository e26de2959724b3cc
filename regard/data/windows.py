"""Questions on long texts as windows that a model can read, each with places in the text."""

from typing import NamedTuple

from regard.data.examples import Ids
from regard.data.rows import AnswerSpan
from regard.data.tokenizer import Located, SpecialIds

FRAME = 3
"""Tokens of `start question end context end` that are neither question nor context."""


class Window(NamedTuple):
    """`start question end context end`, with as much of the context as there is room for."""

    ids: Ids
    begin: int
    """Where the context begins among the ids."""
    offsets: list[tuple[int, int]]
    """The characters of the whole context that each of its tokens here stands for."""

    @property
    def end(self) -> int:
        """Where the context ends among the ids."""
        return self.begin + len(self.offsets)

    def place_of(self, answer: AnswerSpan) -> tuple[int, int] | None:
        """The first and the last token of an answer; None if not all of it is in the window."""
        end = answer.start + len(answer.text)
        inside = [
            place for place, (a, b) in enumerate(self.offsets) if a < end and b > answer.start
        ]
        if not inside or self.offsets[inside[0]][0] > answer.start:
            return None
        if self.offsets[inside[-1]][1] < end:
            return None
        return self.begin + inside[0], self.begin + inside[-1]

    def characters(self, first: int, last: int) -> tuple[int, int]:
        """The characters of the context, begin and end, of the tokens first, …, last."""
        return self.offsets[first - self.begin][0], self.offsets[last - self.begin][1]


def windows_of(
    question: Ids, context: Located, special: SpecialIds, *, longest: int, stride: int
) -> list[Window]:
    """Windows of at most `longest` tokens; neighbours have `stride` tokens of context in common.

    None, if the question leaves no room for more than these.
    """
    room = longest - len(question) - FRAME
    if len(context.ids) > room and room <= stride:
        return []
    front = [special.first, *question, special.end]
    windows = []
    begin = 0
    while True:
        part = slice(begin, begin + room)
        ids = [*front, *context.ids[part], special.end]
        windows.append(Window(ids, len(front), context.offsets[part]))
        if begin + room >= len(context.ids):
            return windows
        begin += room - stride


def without_spaces(context: str, begin: int, end: int) -> tuple[int, int]:
    """The same characters without spaces at the ends, which some tokens have."""
    text = context[begin:end]
    return begin + len(text) - len(text.lstrip()), end - (len(text) - len(text.rstrip()))
