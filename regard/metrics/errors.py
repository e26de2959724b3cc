"""Error rates: how many edits turn a prediction into its reference."""

from collections.abc import Sequence

from regard.metrics.exact import exact_match


def edit_distance(left: Sequence[object], right: Sequence[object]) -> int:
    """The fewest insertions, deletions and substitutions between two sequences (Levenshtein 1966).

    d(i, j) = min(d(i−1, j) + 1, d(i, j−1) + 1, d(i−1, j−1) + [leftᵢ ≠ rightⱼ]), row by row.
    """
    row = list(range(len(right) + 1))  # d(0, j) = j
    for i, item in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(right, start=1):
            best = min(row[j] + 1, row[j - 1] + 1, diagonal + (item != other))
            diagonal, row[j] = row[j], best
    return row[-1]


def word_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The fraction of words whose predicted pronunciation is none of their references."""
    return 1 - exact_match(predictions, references)


def phoneme_error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Edits to the nearest reference, summed, divided by the phonemes of those references."""
    edits = phonemes = 0
    for prediction, allowed in zip(predictions, references, strict=True):
        predicted = prediction.split()
        distance, minus_length = min(
            (edit_distance(predicted, reference.split()), -len(reference.split()))
            for reference in allowed
        )  # of two equally near references, the longer
        edits += distance
        phonemes -= minus_length
    return edits / phonemes
