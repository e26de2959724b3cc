"""classify: a class for a text."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import TARGETS, Collate
from regard.data.examples import Ids
from regard.data.row_source import RowSource, listed_classes
from regard.data.rows import Fault, Field, Row
from regard.data.splits import Split
from regard.data.text_batch import TextBatch, collate_classes
from regard.data.tokenizer import Tokenizer
from regard.metrics.classes import BY_CLASS, class_averages
from regard.metrics.output import Output
from regard.models import RecurrentClassifier, TextClassifier
from regard.models.build import classifier
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.ranks import World
from regard.tasks.evaluation import Evaluation
from regard.tasks.labels import Labels
from regard.tasks.pair_task import Sources
from regard.tasks.prediction import Prediction
from regard.tasks.reading_task import ReadingTask
from regard.tasks.request import Answer, Request
from regard.tasks.split_data import Encoded
from regard.training.contrast import contrast
from regard.training.gradients import Carried
from regard.training.loss import NONE_IS_PADDING, Sums, token_sums


@dataclass(frozen=True)
class Classification(Prediction):
    """The most likely classes of a text."""

    probabilities: list[float] = field(default_factory=list)
    """The probability of each class in `outputs`."""

    def details(self) -> dict[str, Any]:
        return {"scores": self.probabilities}


class Classify(ReadingTask):
    """Labelled texts, or pairs of texts; cross-entropy on the class; accuracy."""

    FILES: tuple[str, ...] = ("tokenizer.json", "labels.json")
    ACCURACY = "accuracy"
    FIELDS: tuple[Field, ...] = (Field("text"), Field("text_pair"), Field("label", "label"))

    def __init__(
        self,
        config: Config,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        sources: Sources | None = None,
    ) -> None:
        super().__init__(config, tokenizer, sources=sources)
        self.labels = labels

    @classmethod
    def fields_of(cls, config: Config) -> tuple[Field, ...]:
        """A second text only if its column is named."""
        return tuple(
            field for field in cls.FIELDS if field.name != "text_pair" or config.data.text_pair
        )

    @classmethod
    def learn(cls, config: Config) -> ReadingTask:
        sources = cls.sources_of(config)
        train = sources["train"]
        tokenizer = cls.learned_tokenizer(config, train)
        labels = Labels.learn(
            (row["label"] for row in train.rows()),
            normalize=config.tokenizer.normalize,
            path=train.path,
            key=f"data.train={config.data.train!r}",
        )
        return cls(config, tokenizer, labels, sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> ReadingTask:
        labels = Labels.read(files, cls.FILES[1], normalize=config.tokenizer.normalize)
        return cls(config, Tokenizer.read(files, cls.FILES[0]), labels)

    @property
    def files(self) -> dict[str, str]:
        return dict(zip(self.FILES, (self.tokenizer.json, self.labels.json), strict=False))

    def new_model(self) -> TextClassifier | RecurrentClassifier:
        return classifier(
            self.config,
            vocab=len(self.tokenizer),
            classes=len(self.labels),
            padding=self.tokenizer.padding,
        )

    @property
    def collate(self) -> Collate:
        return partial(collate_classes, ids=self.tokenizer.special, paired=self.segmented)

    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        """A class that is not known has no number."""
        numbers = [self.labels.number(row["label"]) for row in rows]
        return (
            self.rows_of([self.texts_in(row) for row in rows]),
            [[] if number is None else [number] for number in numbers],
        )

    def faults(self, encoded: Sequence[Encoded], source: RowSource) -> dict[int, Fault]:
        faults = super().faults(encoded, source)
        for number, line in enumerate(encoded):
            if line.target or number in faults:
                continue
            classes = listed_classes(self.labels.names)
            label = line.row["label"][:40]
            reason = f"the class {label!r} is unknown; data.train has {classes}"
            if source.generated:
                raise UserError(f"data.{source.split}={source.name}: {reason}.")
            place = source.place(len(self.names) - 1, line.row)
            faults[number] = Fault(place, line.row.line, reason, "the class is unknown")
        return faults

    def loss(self, model: Callable[..., Any], batch: TextBatch, carried: Carried) -> Sums:
        """Σ −log p(class | text), smoothed as the configuration says."""
        if self.config.training.contrastive:
            return self._contrastive(model, batch)
        return self.sums(model, batch, smoothing=self.config.training.label_smoothing)

    def _contrastive(self, model: Any, batch: TextBatch) -> Sums:
        """The same for the head alone, beside the contrast of the batch, which the body learns."""
        vectors = model.vectors(batch.source, batch.lengths, segments=batch.segments)
        sums = token_sums(
            model.head(vectors.detach())[:, None],
            batch.targets[:, None],
            tokens=batch.tokens,
            smoothing=self.config.training.label_smoothing,
            padding=NONE_IS_PADDING,
        )
        of_head = sums[TARGETS]
        loss = of_head.loss + contrast(vectors, batch.targets)
        return Sums.of(loss, of_head.count, of_head.correct)

    def sums(self, model: Callable[..., Any], batch: TextBatch, *, smoothing: float) -> Sums:
        return token_sums(
            model(batch.source, batch.lengths, segments=batch.segments)[:, None],
            batch.targets[:, None],
            tokens=batch.tokens,
            smoothing=smoothing,
            padding=NONE_IS_PADDING,
        )

    def evaluate(
        self,
        model: Any,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The loss of the texts of a split, without smoothing, and the share classed rightly.

        Precision, recall and F1, averaged over the classes, and the class of every text are among
        it, unless only other metrics are asked for.
        """
        total = self.sums_of(model, split, engine=engine, world=world or World())
        measured, outputs = self.means(total), list[Output]()
        if metrics is None or {*metrics} & {*BY_CLASS}:
            outputs = self._outputs(model, split, engine=engine)
            measured |= class_averages([(output.target, output.output) for output in outputs])
        return Evaluation(total.tokens, measured, outputs=outputs, warnings=self.warnings([split]))

    def _outputs(self, model: Any, split: Split, *, engine: Engine) -> list[Output]:
        """Every text of a split with its class and the most likely one."""
        rows = self.rows_in(split)
        likeliest = self._probabilities(model, rows, engine=engine).argmax(dim=-1).tolist()
        return [
            Output(text, self.labels.known_name(label), self.labels[number])
            for (text, label), number in zip(self.pairs(split), likeliest, strict=True)
        ]

    def predict(self, model: Any, request: Request, *, engine: Engine) -> Answer:
        """The n_best classes of each line, with their probabilities."""
        n_best = request.decode.n_best
        if n_best > len(self.labels):
            raise UserError(
                f"n_best={n_best} is more than the {len(self.labels)} classes there are."
            )
        read = self.read_request(request)
        predictions: list[Prediction] = [Classification(line) for line in request.lines]
        top = self._probabilities(model, list(read.ids.values()), engine=engine).topk(n_best)
        best = zip(read.ids, top.values.tolist(), top.indices.tolist(), strict=True)
        for number, probabilities, classes in best:
            names = [self.labels[label] for label in classes]
            predictions[number] = Classification(request.lines[number], names, probabilities)
        return Answer(predictions, read.counts, read.refusals)

    def _probabilities(
        self, model: Any, rows: Sequence[Ids], *, engine: Engine
    ) -> Float[Tensor, "N C"]:
        """The probability of each class for every row."""
        return self.outputs_of(model, rows, width=len(self.labels), engine=engine).softmax(dim=-1)

    def trace(
        self,
        model: Any,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes while it reads a text: attention, gates, filters."""
        logits = self.traced(model, text, engine=engine, trace=trace)
        trace.tokens["output"] = [self.labels[int(logits[0].argmax())]]
        return trace
