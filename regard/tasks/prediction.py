"""Prediction: what became of one line; every task has its own kind."""

import math
import re
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any

TINY = sys.float_info.min
"""In place of a probability of 0, which has no logarithm."""


@dataclass(frozen=True)
class Prediction(ABC):
    """The outputs for one line, the best first; none for a line that is empty or was refused."""

    input: str
    outputs: list[str] = field(default_factory=list)

    @property
    def best(self) -> str:
        """The best output alone."""
        return self.outputs[0] if self.outputs else ""

    @property
    def columns(self) -> list[str]:
        """What is printed for the line: its outputs, and what else there is to say."""
        return self.outputs

    @property
    def text(self) -> str:
        """The columns with tabs between them.

        A line in is a line out: what would end it, or a column of it, becomes a space.
        """
        return "\t".join(re.sub(r"[\n\r\t]", " ", column) for column in self.columns)

    def as_json(self) -> dict[str, Any]:
        """The prediction as plain values; what was not UTF-8 in the line is replaced."""
        line = self.input.encode(errors="replace").decode()
        return {"input": line, "outputs": self.outputs, **self.details()}

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """What the task says about its outputs, as plain values."""


@dataclass(frozen=True)
class Token:
    """One token of an output, with its probability and the most probable ones in its place."""

    text: str
    probability: float
    alternatives: list[tuple[str, float]]


@dataclass(frozen=True)
class GeneratedText(Prediction):
    """Outputs that were generated token by token."""

    scores: list[float] = field(default_factory=list)
    """What the outputs are ranked by: log-probabilities, in a beam over the length penalty."""
    finished: list[bool] = field(default_factory=list)
    """Whether each output ended by itself, and not at max_new_tokens."""
    tokens: list[list[Token]] | None = field(default=None, kw_only=True)
    """The tokens of each output, `</s>` included; None where they were not requested."""

    def details(self) -> dict[str, Any]:
        details: dict[str, Any] = {"scores": self.scores, "finished": self.finished}
        if self.tokens is None:
            return details
        return details | {
            "log_probabilities": self.log_probabilities,
            "tokens": [[asdict(token) for token in tokens] for tokens in self.tokens],
        }

    @property
    def log_probabilities(self) -> list[float]:
        """Σ log p of the tokens of each output, by the model alone."""
        return [
            sum(math.log(max(token.probability, TINY)) for token in tokens)
            for tokens in self.tokens or ()
        ]
