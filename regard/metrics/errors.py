"""Error rates: how many edits a prediction is away from what it should be."""

from collections.abc import Sequence

from regard.metrics.exact import exact_match


def edit_distance(one: Sequence[object], other: Sequence[object]) -> int:
    """The fewest insertions, deletions and substitutions between two sequences (Levenshtein 1966).

    d(i, j) = min(d(i−1, j) + 1, d(i, j−1) + 1, d(i−1, j−1) + [oneᵢ ≠ otherⱼ]), a row at a time.
    """
    row = list(range(len(other) + 1))  # d(0, j) = j
    for i, left in enumerate(one, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(other, start=1):
            best = min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
            diagonal, row[j] = row[j], best
    return row[-1]


def word_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The share of words whose pronunciation is none of their references."""
    return 1 - exact_match(predictions, references)


def phoneme_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Edits to the nearest reference, summed, divided by the phonemes of those references."""
    edits = phonemes = 0
    for prediction, right in zip(predictions, references, strict=True):
        spoken = prediction.split()
        nearest = min(
            (edit_distance(spoken, one.split()), -len(one.split())) for one in right
        )  # of two equally near, the longer
        edits += nearest[0]
        phonemes -= nearest[1]
    return edits / phonemes
