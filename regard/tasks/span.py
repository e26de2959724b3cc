"""span: the part of a text that answers a question."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch

from regard.config import Config, Decode
from regard.data.batches import Collate
from regard.data.examples import Ids
from regard.data.row_source import RowSource
from regard.data.rows import Fault, Field, Row
from regard.data.splits import Pair, Split
from regard.data.tokenizer import Tokenizer
from regard.data.windows import Window, windows_of
from regard.metrics.answers import answer_em, answer_f1
from regard.metrics.output import Output
from regard.models import SpanFinder
from regard.models.build import span_finder
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.system.ranks import World
from regard.tasks.answer_search import CANDIDATES, NONE, Asked, find_answers
from regard.tasks.answering import (
    Answering,
    FoundAnswer,
    Question,
    read_question,
)
from regard.tasks.evaluation import Evaluation
from regard.tasks.pair_task import EVALUATING, PairTask
from regard.tasks.prediction import Prediction
from regard.tasks.request import Answer, Request, read_lines
from regard.tasks.span_batch import best_spans, collate_spans, span_sums
from regard.tasks.split_data import Encoded
from regard.tasks.task import VerifyInputs
from regard.training.gradients import Carried, sums_over_ranks
from regard.training.loss import Sums


class Span(PairTask):
    """Questions on texts, an encoder and two logits per token, exact match and F1 of answers."""

    ACCURACY = "accuracy"
    FIELDS = (Field("question"), Field("context"), Field("answers", "answers", of="context"))
    TOKEN_SIDES = 0
    generates = False

    def __init__(self, config: Config, tokenizer: Tokenizer, **sources: Any) -> None:
        super().__init__(config, **sources)
        self.tokenizer = tokenizer

    @classmethod
    def learn(cls, config: Config) -> "Span":
        sources = cls.sources_of(config)
        tokenizer = Tokenizer.train(
            _texts(sources["train"]), kind=config.tokenizer.kind, **config.tokenizer.options
        )
        return cls(config, tokenizer, sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "Span":
        return cls(config, Tokenizer.read(files, cls.FILES[0]))

    @property
    def files(self) -> dict[str, str]:
        return {self.FILES[0]: self.tokenizer.json}

    @property
    def reading(self) -> tuple[object, ...]:
        return (self.config.data.stride, self.config.data.no_answer)

    def new_model(self) -> SpanFinder:
        padding = self.tokenizer.padding
        return span_finder(self.config, vocab=len(self.tokenizer), padding=padding)

    @property
    def collate(self) -> Collate:
        return partial(collate_spans, ids=self.tokenizer.special)

    def encoded(self, rows: Sequence[Row]) -> list[Encoded]:
        """Every window of every question; one without tokens for a question that has none."""
        windows = self.windows([Question(row["question"], row["context"]) for row in rows])
        lines = []
        for row, of_row in zip(rows, windows, strict=True):
            targets = self._targets(row, of_row)
            pairs = zip(of_row, targets, strict=True) if targets else ()
            lines += [Encoded(row, window.ids, target) for window, target in pairs]
            lines += [] if targets else [Encoded(row, [], [])]
        return lines

    def windows(self, questions: Sequence[Question]) -> list[list[Window]]:
        """The windows of each question; none, if its own tokens leave no room for its context."""
        data = self.config.data
        asked = self.tokenizer.encode([question for question, _ in questions])
        located = self.tokenizer.locate([context for _, context in questions])
        return [
            windows_of(
                question,
                context,
                self.tokenizer.special,
                longest=data.max_length,
                stride=data.stride,
            )
            for question, context in zip(asked, located, strict=True)
        ]

    def _targets(self, row: Row, windows: Sequence[Window]) -> list[Ids]:
        """The place of the first answer in each window; none, if the question cannot be used."""
        answers = row["answers"]
        if not answers:
            return [list(NONE)] * len(windows) if self.config.data.no_answer else []
        places = [window.place_of(answers[0]) for window in windows]
        if not any(places):
            return []
        return [list(NONE if place is None else place) for place in places]

    def faults(self, encoded: Sequence[Encoded], source: RowSource) -> dict[int, Fault]:
        return {
            number: Fault(
                source.place(0), line.row.line, *self._why(line.row), place=line.row.place
            )
            for number, line in enumerate(encoded)
            if not line.source
        }

    def _why(self, row: Row) -> tuple[str, str]:
        """Why a question cannot be used, and the same without its numbers."""
        if not row["answers"] and not self.config.data.no_answer:
            kind = "the question has no answer"
            return f"{kind}; data.no_answer=true reads such questions too", kind
        if not self.windows([Question(row["question"], row["context"])])[0]:
            return self._no_room(row["question"])
        text = row["answers"][0].text
        kind = "no window holds all of the answer"
        return f"{kind} {text[:40]!r}: make data.stride or data.max_length larger", kind

    def _no_room(self, question: str) -> tuple[str, str]:
        (ids,) = self.tokenizer.encode([question])
        data, kind = self.config.data, "the question leaves no room for its context"
        windows = f"windows of data.max_length={data.max_length} with data.stride={data.stride}"
        return f"{kind}: it has {len(ids):,} tokens, in {windows}", kind

    def loss(self, model: Callable[..., Any], batch: Any, carried: Carried) -> Sums:
        """½ Σ (−log p(first token) − log p(last token)) over windows."""
        return self.sums(model, batch, smoothing=0.0)

    def sums(self, model: Callable[..., Any], batch: Any, *, smoothing: float) -> Sums:
        return span_sums(model(batch.source, batch.lengths, segments=batch.segments), batch)

    def evaluate(
        self,
        model: SpanFinder,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The loss of all windows of a split, and exact match and F1 of the best answers.

        Every question is among the outputs, unless only some metrics are asked for.
        """
        world = world or World()
        rows = list(self._usable(split))
        with naming_the_batch(f"a batch of data.{split}", remedy=EVALUATING):
            own, sums = self._find(model, self._asked(world.share(rows)), engine=engine)
        found: list[str] = world.join([answers[0].text if answers else "" for answers in own])
        total = sums_over_ranks(sums, world)
        right = [[answer.text for answer in row["answers"]] for row in rows]
        measured = {
            name: sum(map(measure, found, right)) / len(rows)
            for name, measure in (("em", answer_em), ("f1", answer_f1))
        }
        outputs = [
            Output(row["question"], texts[0] if texts else "", answer)
            for row, texts, answer in zip(rows, right, found, strict=True)
        ]
        return Evaluation(
            len(rows),
            self.means(total) | measured,
            outputs=outputs if metrics is None else [],
            warnings=self.warnings([split]),
        )

    def _usable(self, split: Split) -> Iterator[Row]:
        """The questions of a split, each once."""
        last = None
        for line in self.read(split):
            if line.row is not last:
                yield line.row
            last = line.row

    def _asked(self, rows: Iterator[Row]) -> list[Asked]:
        listed = list(rows)
        windows = self.windows([Question(row["question"], row["context"]) for row in listed])
        return [
            Asked(row["context"], of_row, self._targets(row, of_row))
            for row, of_row in zip(listed, windows, strict=True)
        ]

    def _find(
        self, model: Any, asked: Sequence[Asked], *, engine: Engine
    ) -> tuple[list[list[FoundAnswer]], Sums]:
        data = self.config.data
        return find_answers(model, asked, data=data, collate=self.collate, engine=engine)

    def predict(self, model: SpanFinder, request: Request, *, engine: Engine) -> Answer:
        """The n_best answers to the question of each line, with their places in its context."""
        n_best = request.decode.n_best
        if n_best > CANDIDATES:
            raise UserError(f"n_best={n_best} is more than the {CANDIDATES} answers that are kept.")
        read = read_lines(request, self.tokenizer, self.refusal, encode=self._ids)
        questions = [_question(request.lines[number]) for number in read.ids]
        windows = self.windows(questions)
        asked = [
            Asked(question.context, of_question)
            for question, of_question in zip(questions, windows, strict=True)
        ]
        answers, _ = self._find(model, asked, engine=engine)
        predictions: list[Prediction] = [Answering(line) for line in request.lines]
        for number, found in zip(read.ids, answers, strict=True):
            texts = [answer.text for answer in found[:n_best]]
            predictions[number] = Answering(request.lines[number], texts, found[:n_best])
        return Answer(predictions, read.counts, read.refusals)

    def _ids(self, lines: Sequence[str]) -> list[Ids]:
        """The tokens of question and context of each line, to be counted."""
        questions = [read_question(line) for line in lines]
        texts = [
            "" if isinstance(one, str) else f"{one.question} {one.context}" for one in questions
        ]
        return self.tokenizer.encode(texts)

    def refusal(self, line: str, ids: Ids) -> str | None:
        """Words that no training text had are read as <unk>, and counted."""
        question = read_question(line)
        if isinstance(question, str):
            return question
        if not self.windows([question])[0]:
            return f"{self._no_room(question.question)[0]}."
        return None

    def trace(
        self,
        model: SpanFinder,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes while it reads the first window of a question."""
        fault = self.refusal(text, [])
        if fault is not None:
            raise UserError(f"trace: {fault}")
        window = self.windows([_question(text)])[0][0]
        batch = self.collate([window.ids], [list(NONE)]).to(engine.device)
        trace.tokens["source"] = self.tokenizer.tokens(window.ids)
        with torch.inference_mode():
            logits = model(batch.source, batch.lengths, segments=batch.segments, trace=trace)
        edges = {"begins": [window.begin], "ends": [window.end]}
        longest = self.config.data.max_answer_length
        spans = best_spans(logits, **edges, longest=longest, count=1)[0]
        ids = window.ids[spans[0].first : spans[0].last + 1] if spans else []
        trace.tokens["output"] = self.tokenizer.tokens(ids)
        return trace

    def example(self, fits: Callable[[str], bool]) -> str | None:
        pairs = (" ".join(f"{q}\t{c}".split(" ")) for q, c in self.pairs("test"))
        return self.first_to_show((pair for pair in pairs if pair.count("\t") == 1), fits)

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        windows = self.windows([Question(*pair) for pair in pairs])
        return VerifyInputs([window.ids for window in chain(*windows)])


def _question(line: str) -> Question:
    question = read_question(line)
    assert isinstance(question, Question)  # lines that are none were refused
    return question


def _texts(train: RowSource) -> Iterator[str]:
    """Questions and contexts to learn a tokenizer from, a context once for all of its questions."""
    last = None
    for row in train.to_learn_from():
        yield row["question"]
        if row["context"] != last:
            yield row["context"]
        last = row["context"]
