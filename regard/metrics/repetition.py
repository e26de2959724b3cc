"""How varied texts are: distinct n-grams, and n-grams that a text repeats."""

from collections.abc import Hashable, Sequence

Text = Sequence[Hashable]
"""A text as words or tokens."""


def ngrams(text: Text, n: int) -> list[tuple[Hashable, ...]]:
    """All n-grams of a text, in order."""
    return [tuple(text[place : place + n]) for place in range(len(text) - n + 1)]


def distinct(texts: Sequence[Text], n: int) -> float:
    """distinct-n: different n-grams of all texts / n-grams (Li et al. 2016, §5.3); 0 without any.

    It falls with the length of the texts: compare texts of like length.
    """
    every = [ngram for text in texts for ngram in ngrams(text, n)]
    return len({*every}) / len(every) if every else 0.0


def repeated(texts: Sequence[Text], n: int = 4) -> float:
    """The share of n-grams that stood in the same text before (Welleck et al. 2020, §6)."""
    counts = [(len(grams), len({*grams})) for grams in (ngrams(text, n) for text in texts)]
    total = sum(count for count, _ in counts)
    return sum(count - different for count, different in counts) / total if total else 0.0
