"""classify: a class for a text."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import Collate, dealt_out, pad
from regard.data.examples import Ids
from regard.data.pairs import PairSource, listed_classes
from regard.data.records import Fault, Row
from regard.data.splits import Split
from regard.data.tokenizer import Tokenizer
from regard.metrics.analysis import Translated
from regard.models import RecurrentClassifier
from regard.models.build import recurrent_classifier
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks.asked import Asked
from regard.tasks.pair_task import Encoded, PairTask
from regard.tasks.task import Prediction
from regard.training.loop import Carried
from regard.training.loss import NONE_IS_PADDING, Sums, token_sums

CLASSIFIED_TOGETHER = 256
"""Rows of a batch when predicting."""


@dataclass(frozen=True)
class ClassBatch:
    """Padded texts, and the class of each."""

    source: Int[Tensor, "B L"]
    classes: Int[Tensor, "B"]

    @property
    def tokens(self) -> int:
        """Targets: one a row."""
        return len(self.classes)

    def to(self, device: torch.device) -> "ClassBatch":
        return ClassBatch(
            self.source.to(device, non_blocking=True), self.classes.to(device, non_blocking=True)
        )

    def shares(self, count: int) -> "list[ClassBatch]":
        """Its rows dealt out to up to so many batches."""
        return [
            ClassBatch(self.source[rows], self.classes[rows])
            for rows in dealt_out(len(self.source), count)
        ]


def collate_classes(sources: Sequence[Ids], targets: Sequence[Ids]) -> ClassBatch:
    """A batch of these texts; a target is the number of a class."""
    return ClassBatch(pad(sources), torch.tensor([target[0] for target in targets]))


class Classify(PairTask):
    """Labelled texts, a recurrent classifier, cross-entropy on the class, accuracy."""

    FILES = ("tokenizer.json", "labels.json")
    ACCURACY = "accuracy"
    NAMES = ("text", "label")
    TOKEN_SIDES = 1
    WRITES = False

    def __init__(self, config: Config, files: dict[str, str] | None = None) -> None:
        super().__init__(config)
        if files is None:
            train = self.sources["train"]
            self.tokenizer = Tokenizer.train(
                (row.source for row in train.to_learn_from()),
                kind=config.tokenizer.kind,
                **config.tokenizer.options,
            )
            self.labels = sorted({row.target for row in train.rows()})
        else:
            self.tokenizer = Tokenizer.read(files, self.FILES[0])
            self.labels = _read_labels(files, self.FILES[1])
        if not self.labels:
            raise UserError(f"{self.sources['train'].path}: there is no usable line in it.")
        if len(self.labels) < 2:
            raise UserError(
                f"data.train={config.data.train!r} has one class alone, {self.labels[0]!r}: there "
                f"is nothing to tell apart."
            )
        self._numbers = {label: number for number, label in enumerate(self.labels)}

    @property
    def files(self) -> dict[str, str]:
        labels = json.dumps(self.labels, ensure_ascii=False, indent=1)
        return dict(zip(self.FILES, (self.tokenizer.json, labels), strict=True))

    def new_model(self) -> RecurrentClassifier:
        return recurrent_classifier(
            self.config, vocab=len(self.tokenizer), classes=len(self.labels)
        )

    @property
    def collate(self) -> Collate:
        return collate_classes

    @property
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        return (self.tokenizer,)

    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        """A class that is not known has no number."""
        return (
            self.tokenizer.encode([row.source for row in rows]),
            [[self._numbers[row.target]] if row.target in self._numbers else [] for row in rows],
        )

    def faults(self, encoded: Sequence[Encoded], source: PairSource) -> dict[int, Fault]:
        found = {} if source.generated else super().faults(encoded, source)
        for number, one in enumerate(encoded):
            if one.target or number in found:
                continue
            classes = listed_classes(self.labels)
            fault = f"the class {one.row.target[:40]!r} is unknown; data.train has {classes}"
            if source.generated:
                raise UserError(f"data.{source.split}={source.name}: {fault}.")
            found[number] = Fault(source.place(1), one.row.line, fault, "the class is unknown")
        return found

    def loss(self, model: Callable[..., Any], batch: ClassBatch, carried: Carried) -> Sums:
        """Σ −log p(class | text), smoothed as the configuration says."""
        return self.sums(model, batch, smoothing=self.config.training.label_smoothing)

    def sums(self, model: Callable[..., Any], batch: ClassBatch, *, smoothing: float) -> Sums:
        return token_sums(
            model(batch.source)[:, None],
            batch.classes[:, None],
            tokens=batch.tokens,
            smoothing=smoothing,
            padding=NONE_IS_PADDING,
        )

    def evaluate(
        self,
        model: RecurrentClassifier,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        written: Collection[str] | None = None,
        outputs: list[Translated] | None = None,
    ) -> tuple[int, dict[str, float]]:
        """How many texts there are, their loss without smoothing, and the share classed rightly."""
        total = self.sums_of(model, split, engine=engine)
        return total.tokens, self.means(total)

    def predict(
        self, model: RecurrentClassifier, asked: Asked, *, engine: Engine
    ) -> list[Prediction]:
        """The n_best classes of each line, with their probabilities."""
        asked.only_of_a_translator(self.config.task)
        lines, readable, best = asked.lines, asked.readable(self.check), asked.decode.n_best
        if best > len(self.labels):
            raise UserError(f"n_best={best} is more than the {len(self.labels)} classes there are.")
        encoded = self.tokenizer.encode([lines[number] for number in readable])
        ids = dict(zip(readable, encoded, strict=True))
        order = sorted(readable, key=lambda number: len(ids[number]))
        found: dict[int, Prediction] = {}
        for begin in range(0, len(order), CLASSIFIED_TOGETHER):
            rows = order[begin : begin + CLASSIFIED_TOGETHER]
            batch = pad([ids[row] for row in rows]).to(engine.device)
            with torch.inference_mode(), engine.autocast():
                chances = model(batch).float().softmax(dim=-1)  # B C
            top = chances.topk(best)
            for row, scores, classes in zip(
                rows, top.values.tolist(), top.indices.tolist(), strict=True
            ):
                outputs = [self.labels[number] for number in classes]
                found[row] = Prediction(lines[row], outputs, scores)
        return [found.get(number, Prediction(line, [], [])) for number, line in enumerate(lines)]

    def check(self, line: str, *, where: str) -> None:
        if not line.split():
            raise UserError(f"{where}: the line is empty: there is nothing to classify.")
        super().check(line, where=where)

    def trace(self, model: RecurrentClassifier, text: str, *, engine: Engine) -> Trace:
        """Everything that the model computes while it reads a text, the gates among it."""
        self.check(text, where="trace")
        ids = self.tokenizer.encode([text])
        trace = Trace()
        trace.tokens["source"] = self.tokenizer.tokens(ids[0])
        with torch.inference_mode():
            scores = model(pad(ids).to(engine.device), trace=trace)
        trace.tokens["output"] = [self.labels[int(scores[0].argmax())]]
        return trace


def _read_labels(files: dict[str, str], name: str) -> list[str]:
    """The classes in a run's labels.json."""
    if name not in files:
        raise ValueError(f"{name} is missing: a run cannot name its classes without it")
    try:
        labels = json.loads(files[name])
    except ValueError:
        labels = None
    is_list = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not is_list or len(set(labels)) != len(labels) or len(labels) < 2:
        raise ValueError(f"{name} is not a list of classes")
    return labels
