"""classify: a class for a text."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import TARGETS, Collate, dealt_out, padded
from regard.data.examples import Ids
from regard.data.row_source import RowSource, listed_classes
from regard.data.rows import Fault, Field, Row
from regard.data.splits import Pair, Split
from regard.data.tokenizer import OURS, SpecialIds, Tokenizer
from regard.metrics.output import Output
from regard.models import RecurrentClassifier
from regard.models.build import recurrent_classifier
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.numbers import refuse_nan
from regard.system.ranks import World
from regard.tasks.evaluation import Evaluation
from regard.tasks.labels import Labels
from regard.tasks.pair_task import PairTask, Sources
from regard.tasks.prediction import Prediction
from regard.tasks.request import Answer, Request, read_lines
from regard.tasks.split_data import Encoded
from regard.tasks.task import VerifyInputs
from regard.training.gradients import Carried
from regard.training.loss import NONE_IS_PADDING, Sums, token_sums

MAX_ROWS = 256
"""The most rows of a batch when predicting."""


@dataclass(frozen=True)
class Classification(Prediction):
    """The most likely classes of a text."""

    probabilities: list[float] = field(default_factory=list)
    """The probability of each class in `outputs`."""

    def details(self) -> dict[str, Any]:
        return {"scores": self.probabilities}


@dataclass(frozen=True)
class ClassBatch:
    """Padded texts, and the class of each."""

    source: Int[Tensor, "B L"]
    lengths: Int[Tensor, "B"]
    """How many tokens of each text are real."""
    classes: Int[Tensor, "B"]

    @property
    def tokens(self) -> int:
        """How many targets there are: one per row."""
        return len(self.classes)

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        return {TARGETS: self.tokens}

    def to(self, device: torch.device) -> "ClassBatch":
        return ClassBatch(
            self.source.to(device, non_blocking=True),
            self.lengths.to(device, non_blocking=True),
            self.classes.to(device, non_blocking=True),
        )

    def rows(self, which: slice) -> "ClassBatch":
        """Some of its rows, padded as they are here."""
        return ClassBatch(self.source[which], self.lengths[which], self.classes[which])

    def shares(self, count: int) -> "list[ClassBatch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]


def collate_classes(
    sources: Sequence[Ids], targets: Sequence[Ids], *, ids: SpecialIds = OURS
) -> ClassBatch:
    """A batch of these texts; a target is the number of a class."""
    return ClassBatch(*padded(sources, ids), torch.tensor([target[0] for target in targets]))


class Classify(PairTask):
    """Labelled texts, a recurrent classifier, cross-entropy on the class, accuracy."""

    FILES = ("tokenizer.json", "labels.json")
    ACCURACY = "accuracy"
    FIELDS = (Field("text"), Field("label", "label"))
    TOKEN_SIDES = 1
    generates = False

    def __init__(
        self,
        config: Config,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        sources: Sources | None = None,
    ) -> None:
        super().__init__(config, sources=sources)
        self.tokenizer = tokenizer
        self.labels = labels

    @classmethod
    def learn(cls, config: Config) -> "Classify":
        sources = cls.sources_of(config)
        train = sources["train"]
        tokenizer = Tokenizer.train(
            (row.source for row in train.to_learn_from()),
            kind=config.tokenizer.kind,
            **config.tokenizer.options,
        )
        labels = Labels.learn(
            (row.target for row in train.rows()),
            normalize=config.tokenizer.normalize,
            path=train.path,
            key=f"data.train={config.data.train!r}",
        )
        return cls(config, tokenizer, labels, sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "Classify":
        labels = Labels.read(files, cls.FILES[1], normalize=config.tokenizer.normalize)
        return cls(config, Tokenizer.read(files, cls.FILES[0]), labels)

    @property
    def files(self) -> dict[str, str]:
        return dict(zip(self.FILES, (self.tokenizer.json, self.labels.json), strict=True))

    def new_model(self) -> RecurrentClassifier:
        return recurrent_classifier(
            self.config,
            vocab=len(self.tokenizer),
            classes=len(self.labels),
            padding=self.tokenizer.padding,
        )

    @property
    def collate(self) -> Collate:
        return partial(collate_classes, ids=self.tokenizer.special)

    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        """A class that is not known has no number."""
        numbers = [self.labels.number(row.target) for row in rows]
        return (
            self.tokenizer.encode([row.source for row in rows]),
            [[] if number is None else [number] for number in numbers],
        )

    def faults(self, encoded: Sequence[Encoded], source: RowSource) -> dict[int, Fault]:
        faults = {} if source.generated else super().faults(encoded, source)
        for number, line in enumerate(encoded):
            if line.target or number in faults:
                continue
            classes = listed_classes(self.labels.names)
            reason = f"the class {line.row.target[:40]!r} is unknown; data.train has {classes}"
            if source.generated:
                raise UserError(f"data.{source.split}={source.name}: {reason}.")
            faults[number] = Fault(source.place(1), line.row.line, reason, "the class is unknown")
        return faults

    def loss(self, model: Callable[..., Any], batch: ClassBatch, carried: Carried) -> Sums:
        """Σ −log p(class | text), smoothed as the configuration says."""
        return self.sums(model, batch, smoothing=self.config.training.label_smoothing)

    def sums(self, model: Callable[..., Any], batch: ClassBatch, *, smoothing: float) -> Sums:
        return token_sums(
            model(batch.source, batch.lengths)[:, None],
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
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The loss of the texts of a split, without smoothing, and the share classed rightly.

        The class of every text is among it, unless only some metrics are asked for.
        """
        total = self.sums_of(model, split, engine=engine, world=world or World())
        outputs = [] if metrics is not None else self._outputs(model, split, engine=engine)
        return Evaluation(
            total.tokens, self.means(total), outputs=outputs, warnings=self.warnings([split])
        )

    def _outputs(self, model: RecurrentClassifier, split: Split, *, engine: Engine) -> list[Output]:
        """Every text of a split with its class and the most likely one."""
        pairs, labels = self.pairs(split), self.labels
        ids = self.tokenizer.encode([text for text, _ in pairs])
        likeliest = self._probabilities(model, ids, engine=engine).argmax(dim=-1).tolist()
        return [
            Output(text, labels.known_name(label), labels[number])
            for (text, label), number in zip(pairs, likeliest, strict=True)
        ]

    def predict(self, model: RecurrentClassifier, request: Request, *, engine: Engine) -> Answer:
        """The n_best classes of each line, with their probabilities."""
        n_best = request.decode.n_best
        if n_best > len(self.labels):
            raise UserError(
                f"n_best={n_best} is more than the {len(self.labels)} classes there are."
            )
        read = read_lines(request, self.tokenizer, self.refusal)
        predictions: list[Prediction] = [Classification(line) for line in request.lines]
        top = self._probabilities(model, list(read.ids.values()), engine=engine).topk(n_best)
        best = zip(read.ids, top.values.tolist(), top.indices.tolist(), strict=True)
        for number, probabilities, classes in best:
            names = [self.labels[label] for label in classes]
            predictions[number] = Classification(request.lines[number], names, probabilities)
        return Answer(predictions, read.counts, read.refusals)

    def _probabilities(
        self, model: RecurrentClassifier, rows: Sequence[Ids], *, engine: Engine
    ) -> Float[Tensor, "N C"]:
        """The probability of each class for every row; rows of like length are read together."""
        probabilities = torch.empty(len(rows), len(self.labels))
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        for begin in range(0, len(order), MAX_ROWS):
            numbers = order[begin : begin + MAX_ROWS]
            batch = padded([rows[number] for number in numbers], self.tokenizer.special)
            with torch.inference_mode(), engine.autocast():
                logits = model(*batch.to(engine.device))  # B C
            probabilities[numbers] = logits.float().softmax(dim=-1).cpu()
        refuse_nan(probabilities)
        return probabilities

    def refusal(self, line: str, ids: Ids) -> str | None:
        if not line.split() or not ids:
            return "the line is empty: there is nothing to classify."
        return super().refusal(line, ids)

    def trace(self, model: RecurrentClassifier, text: str, *, engine: Engine) -> Trace:
        """Everything that the model computes while it reads a text, the gates among it."""
        ids = self.read_one(text, where="trace")
        trace = Trace()
        trace.tokens["source"] = self.tokenizer.tokens(ids)
        with torch.inference_mode():
            logits = model(torch.tensor([ids], device=engine.device), trace=trace)
        trace.tokens["output"] = [self.labels[int(logits[0].argmax())]]
        return trace

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        return VerifyInputs(self.tokenizer.encode([source for source, _ in pairs]))
