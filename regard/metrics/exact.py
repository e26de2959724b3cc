"""Exact match: the share of predictions that are right to the last token."""

from collections.abc import Sequence


def exact_match(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Predictions equal to one of their references, divided by all."""
    pairs = list(zip(predictions, references, strict=True))
    return sum(prediction in right for prediction, right in pairs) / len(pairs)
