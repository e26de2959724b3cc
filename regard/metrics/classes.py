"""Precision, recall and F1 of classes."""

from collections import Counter
from collections.abc import Sequence

BY_CLASS = ("precision", "recall", "f1")


def class_scores(pairs: Sequence[tuple[str, str]]) -> dict[str, dict[str, float]]:
    """Of every class: precision, recall, F1; pairs: the right class and the predicted one.

        precision    right predictions of the class / its predictions
        recall       right predictions of the class / its texts
        F1           2 · precision · recall / (precision + recall)

    What would be divided by 0 is 0.
    """
    texts, predictions = (Counter(side) for side in zip(*pairs, strict=True))
    right = Counter(target for target, predicted in pairs if target == predicted)
    scores: dict[str, dict[str, float]] = {}
    for name in sorted({*texts, *predictions}):
        precision = right[name] / max(1, predictions[name])
        recall = right[name] / max(1, texts[name])
        f1 = 2 * right[name] / (texts[name] + predictions[name])
        scores[name] = {"precision": precision, "recall": recall, "f1": f1}
    return scores


def class_averages(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The mean of each over the classes that there are: macro averages, all classes equal."""
    scores = class_scores(pairs).values()
    return {name: sum(score[name] for score in scores) / len(scores) for name in BY_CLASS}
