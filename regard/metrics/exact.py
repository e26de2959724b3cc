"""Exact match: the fraction of predictions that are equal to a reference."""

from collections.abc import Sequence


def exact_match(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The number of predictions equal to one of their references, divided by all predictions."""
    pairs = list(zip(predictions, references, strict=True))
    return sum(prediction in allowed for prediction, allowed in pairs) / len(pairs)
