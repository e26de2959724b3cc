"""MaskedWords: the most probable words in the place of each mask of a line."""

from dataclasses import asdict, dataclass, field
from typing import Any

from regard.data.vocabularies import MASK_TOKEN
from regard.tasks.prediction import Prediction

CONTINUES = "##"
"""Begins a subword that goes on with the word before it."""


@dataclass(frozen=True)
class MaskedWord:
    """A word that may stand in the place of a mask."""

    word: str
    probability: float


@dataclass(frozen=True)
class FilledMasks(Prediction):
    """A line with the most probable word in the place of each mask, and the words of each."""

    masks: list[list[MaskedWord]] = field(default_factory=list)
    """For each mask of the line, the n_best words, the best first."""

    @property
    def columns(self) -> list[str]:
        words = (
            ", ".join(f"{word.word} {word.probability:.4f}" for word in words)
            for words in self.masks
        )
        return [*self.outputs, *words]

    def details(self) -> dict[str, Any]:
        return {"masks": [[asdict(word) for word in words] for words in self.masks]}


def filled(line: str, words: list[str]) -> str:
    """A line with these words in the place of its masks; all else stays as it is."""
    first, *parts = line.split(MASK_TOKEN)
    text = first
    for word, part in zip(words, parts, strict=True):
        if word.startswith(CONTINUES):
            text = text.rstrip() + word.removeprefix(CONTINUES) + part
        else:
            text += word + part
    return text
