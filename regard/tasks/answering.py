"""Answers to a question, and how a line with a question and its context is read."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from regard.data.lines import why_unreadable
from regard.tasks.prediction import Prediction


@dataclass(frozen=True)
class FoundAnswer:
    """A part of the context: context[start:end] == text; empty: there is no answer."""

    text: str
    start: int
    end: int
    probability: float
    """Among the best candidates of all windows."""


@dataclass(frozen=True)
class Answering(Prediction):
    """The most likely answers to the question of a line."""

    answers: list[FoundAnswer] = field(default_factory=list)

    def details(self) -> dict[str, Any]:
        return {"answers": [asdict(answer) for answer in self.answers]}


class Question(NamedTuple):
    """A question, and the text that it is to be answered from."""

    question: str
    context: str


def read_question(line: str) -> Question | str:
    """The question of a line, or why there is none: {"question", "context"}, or both with a tab."""
    if not line.strip():
        return "the line is empty: there is no question."
    if line.lstrip().startswith("{"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return "the line begins as JSON, and is not."
        parts = [value.get("question"), value.get("context")]
    else:
        parts = list(line.split("\t"))
    if len(parts) != 2 or not all(isinstance(part, str) and part.strip() for part in parts):
        return (
            'a question and its context are expected: with a tab between them, or as {"question": '
            '"…", "context": "…"}.'
        )
    fault = next(filter(None, map(why_unreadable, parts)), None)
    return f"{fault}." if fault is not None else Question(*parts)


class Candidate(NamedTuple):
    """Characters start, …, end − 1 of a context as an answer."""

    score: float
    start: int
    end: int


def ranked(
    context: str, candidates: Sequence[Candidate], *, null: float | None, threshold: float
) -> list[FoundAnswer]:
    """Answers by score, each once, with their probabilities: a softmax over all of them.

    null: the score of there being no answer; None: there is one. It wins where it is higher than
    that of the best answer by more than the threshold.
    """
    best: dict[tuple[int, int], float] = {}
    for score, start, end in candidates:
        best[start, end] = max(score, best.get((start, end), -math.inf))
    scored = [(score, score, place) for place, score in best.items()]
    if null is not None:
        scored.append((null - threshold, null, (0, 0)))
    scored.sort(key=lambda candidate: -candidate[0])
    peak = max((score for _, score, _ in scored), default=0.0)
    total = sum(math.exp(score - peak) for _, score, _ in scored)
    return [
        FoundAnswer(context[start:end], start, end, math.exp(score - peak) / total)
        for _, score, (start, end) in scored
    ]
