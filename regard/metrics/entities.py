"""Precision, recall and F1 of entities, whole and by type, as CoNLL and seqeval count them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from regard.data.tag_schemes import Entity

UNTYPED = "_"
"""The type of entities whose tags have none, as seqeval names it."""


@dataclass
class EntityCounts:
    """How many entities there are, by type; one is correct with its type and both of its ends."""

    expected: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def add(self, expected: Iterable[Entity], predicted: Iterable[Entity]) -> None:
        """Count those of one sentence."""
        both = (set(expected), set(predicted))
        for counter, entities in zip(
            (self.expected, self.predicted, self.correct), (*both, both[0] & both[1]), strict=True
        ):
            counter.update(entity.type or UNTYPED for entity in entities)

    @classmethod
    def added(cls, parts: Iterable[dict[str, dict[str, int]]]) -> "EntityCounts":
        """Those of several ranks together, each as `as_json` gives them."""
        total = cls()
        for part in parts:
            for name, counts in part.items():
                getattr(total, name).update(counts)
        return total

    def as_json(self) -> dict[str, dict[str, int]]:
        """The counts as plain values."""
        return {name: dict(counts) for name, counts in vars(self).items()}

    def metrics(self) -> dict[str, float]:
        """Of all entities together (micro average)."""
        return _metrics(self.expected.total(), self.predicted.total(), self.correct.total())

    def by_type(self) -> dict[str, dict[str, float]]:
        """Of each type, with the number of entities that there should be."""
        return {
            type: _metrics(self.expected[type], self.predicted[type], self.correct[type])
            | {"entities": self.expected[type]}
            for type in sorted(self.expected | self.predicted)
        }


def _metrics(expected: int, predicted: int, correct: int) -> dict[str, float]:
    """correct / predicted, correct / expected, and their harmonic mean; 0 for 0/0."""
    return {
        "precision": correct / max(1, predicted),
        "recall": correct / max(1, expected),
        "f1": 2 * correct / max(1, predicted + expected),
    }
