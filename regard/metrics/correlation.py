"""How well outputs follow the scores that people gave: Pearson's r and Spearman's ρ."""

from collections.abc import Sequence

import numpy as np

CORRELATIONS = ("pearson", "spearman")


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² · Σ (y − ȳ)²): 1 where y is a rising line of x.

    Where all of one side are equal there is nothing to follow: 0.
    """
    a, b = (np.asarray(side, dtype=np.float64) for side in (x, y))
    if len(a) < 2 or a.min() == a.max() or b.min() == b.max():
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # so that no square is too small or too large
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Pearson's r of the ranks: 1 where y rises with x, however fast."""
    return pearson(ranks(x), ranks(y))


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value, from 1; equal values share the mean of their places."""
    _, inverse, counts = np.unique(
        np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True
    )
    last = np.cumsum(counts)
    shared: list[float] = (last - (counts - 1) / 2)[inverse].tolist()
    return shared


def correlations(scores: Sequence[float], outputs: Sequence[float]) -> dict[str, float]:
    """Both, by the names of their metrics."""
    return {"pearson": pearson(scores, outputs), "spearman": spearman(scores, outputs)}
