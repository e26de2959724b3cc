"""The best answers to questions, out of all windows of their contexts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.config import Data
from regard.data.batches import Collate
from regard.data.examples import Ids
from regard.data.windows import Window, without_spaces
from regard.models import SpanLogits
from regard.system.engine import Engine
from regard.system.numbers import refuse_nan
from regard.tasks.answering import Candidate, FoundAnswer, ranked
from regard.tasks.pair_task import EVALUATED_TOGETHER
from regard.tasks.span_batch import best_spans, span_sums
from regard.training.loss import Sums

CANDIDATES = 20
"""Answers that are kept of each window, and of all windows of a question."""
NONE = (0, 0)
"""The first and last token of the answer in a window without it: the one that all begin with."""


@dataclass
class Asked:
    """A question as the model reads it, and the answers that are found to it."""

    context: str
    windows: list[Window]
    targets: list[Ids] | None = None
    """The first and last token of the answer in each window; None where it is to be found."""
    candidates: list[Candidate] = field(default_factory=list)
    null: float = math.inf
    """The score of there being no answer, in the window where it is lowest."""

    def consider(self, logits: SpanLogits, row: int, window: Window, data: Data) -> None:
        """Take the best answers of a window, whose logits are a row of a batch."""
        (spans,) = best_spans(
            SpanLogits(*(part[row, None] for part in logits)),
            [window.begin],
            [window.end],
            longest=data.max_answer_length,
            count=CANDIDATES,
        )
        for score, first, last in spans:
            begin, end = window.characters(first, last)
            self.candidates.append(Candidate(score, *without_spaces(self.context, begin, end)))
        self.null = min(self.null, float(logits.start[row, 0]) + float(logits.end[row, 0]))

    def answers(self, data: Data) -> list[FoundAnswer]:
        """The answers, the best first."""
        return ranked(
            self.context,
            sorted(self.candidates, reverse=True)[:CANDIDATES],
            null=self.null if data.no_answer else None,
            threshold=data.null_threshold,
        )


def find_answers(
    model: Any, asked: Sequence[Asked], *, data: Data, collate: Collate, engine: Engine
) -> tuple[list[list[FoundAnswer]], Sums]:
    """The answers to each question, the best first; and the loss, where targets are known."""
    total = Sums()
    for together in _batches(asked):
        windows = [question.windows[number] for question, number in together]
        known = all(question.targets is not None for question, _ in together)
        targets = [
            list(NONE) if question.targets is None else question.targets[number]
            for question, number in together
        ]
        batch = collate([window.ids for window in windows], targets).to(engine.device)
        with torch.inference_mode(), engine.autocast():
            logits = model(batch.source, batch.lengths, segments=batch.segments)
            refuse_nan(logits.start)
            refuse_nan(logits.end)
            total = total + (span_sums(logits, batch) if known else Sums())
        on_cpu = SpanLogits(*(part.float().cpu() for part in logits))
        for row, (question, _) in enumerate(together):
            question.consider(on_cpu, row, windows[row], data)
    return [question.answers(data) for question in asked], total


def _batches(asked: Sequence[Asked]) -> Iterator[list[tuple[Asked, int]]]:
    """Windows of like length together, each as its question and its number among the windows."""
    every = [(question, number) for question in asked for number in range(len(question.windows))]
    every.sort(key=lambda each: len(each[0].windows[each[1]].ids))
    batch: list[tuple[Asked, int]] = []
    for question, number in every:
        if batch and (len(batch) + 1) * len(question.windows[number].ids) > EVALUATED_TOGETHER:
            yield batch
            batch = []
        batch.append((question, number))
    if batch:
        yield batch
