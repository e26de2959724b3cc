"""Sentences of a text, for models that are trained on pairs of them."""

import re
from collections.abc import Iterator

END = re.compile(
    r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])(?![。！？”’」』）])|(?<=[。！？][”’」』）])"
)
"""Where a sentence ends within a line: after its mark, and after what is closed there."""
FEWEST_WORDS = 2
"""A sentence of fewer words, as "Dr." or a number, is joined to the next."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of every line, with no space around them; a line break always ends one.

    They are the units of which pairs are made: it does no harm if one in many is cut after "Mr.".
    """
    for line in text.split("\n"):
        begin = 0
        for end in END.finditer(line):
            sentence = line[begin : end.end()].strip()
            if _has_words(sentence):
                yield sentence
                begin = end.end()
        rest = line[begin:].strip()
        if rest:
            yield rest


def _has_words(sentence: str) -> bool:
    """Whether it is more than an abbreviation; what has no spaces is measured in characters."""
    return len(sentence.split()) >= FEWEST_WORDS or (not sentence.isascii() and len(sentence) > 2)
