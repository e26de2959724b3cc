"""Exact match: the share of predictions that are right to the last token."""

from collections.abc import Sequence


def exact_match(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Predictions equal to their reference, divided by all."""
    pairs = list(zip(predictions, references, strict=True))
    return sum(prediction == reference for prediction, reference in pairs) / len(pairs)
