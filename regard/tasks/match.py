"""match: what two texts have to do with each other, as a class or as a score."""

import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import nn

from regard.config import Config, Decode
from regard.data.batches import Collate
from regard.data.examples import Ids
from regard.data.numbers_in_ids import ids_of
from regard.data.rows import Field, Row
from regard.data.splits import Split
from regard.data.text_batch import TextBatch, collate_scores
from regard.data.tokenizer import Tokenizer
from regard.metrics.correlation import CORRELATIONS, correlations
from regard.metrics.output import Output
from regard.models import RecurrentClassifier, TextClassifier
from regard.models.build import classifier
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.json_files import JsonError, parse_json
from regard.system.ranks import World
from regard.tasks.classify import Classify
from regard.tasks.evaluation import Evaluation
from regard.tasks.pair_task import Sources
from regard.tasks.prediction import Prediction
from regard.tasks.reading_task import ReadingTask
from regard.tasks.request import Answer, Request
from regard.training.gradients import Carried
from regard.training.loss import Sums

TEXTS = (Field("text"), Field("text_pair"))
MEAN = "mean"
"""The key in scores.json."""


@dataclass(frozen=True)
class Rating(Prediction):
    """The score of two texts, as text in its one output."""

    scores: list[float] = field(default_factory=list)

    def details(self) -> dict[str, Any]:
        return {"scores": self.scores}


class MatchScore(ReadingTask):
    """Two texts and how alike they are; the squared error; Pearson and Spearman correlation."""

    FIELDS = (*TEXTS, Field("score", "number"))
    FILES = ("tokenizer.json", "scores.json")

    def __init__(
        self,
        config: Config,
        tokenizer: Tokenizer,
        mean: float,
        *,
        sources: Sources | None = None,
    ) -> None:
        """mean: that of the training scores, which a new model begins with."""
        super().__init__(config, tokenizer, sources=sources)
        self.mean = mean

    @classmethod
    def learn(cls, config: Config) -> "MatchScore":
        sources = cls.sources_of(config)
        train = sources["train"]
        tokenizer = cls.learned_tokenizer(config, train)
        scores = [row["score"] for row in train.rows()]
        return cls(config, tokenizer, sum(scores) / max(1, len(scores)), sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "MatchScore":
        return cls(config, Tokenizer.read(files, cls.FILES[0]), _mean_in(files, cls.FILES[1]))

    @property
    def files(self) -> dict[str, str]:
        texts = (self.tokenizer.json, json.dumps({MEAN: self.mean}))
        return dict(zip(self.FILES, texts, strict=True))

    def new_model(self) -> TextClassifier | RecurrentClassifier:
        vocab, padding = len(self.tokenizer), self.tokenizer.padding
        model = classifier(self.config, vocab=vocab, classes=1, padding=padding)
        nn.init.constant_(model.output.bias, self.mean)
        return model

    @property
    def collate(self) -> Collate:
        return partial(collate_scores, ids=self.tokenizer.special, paired=self.segmented)

    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        """A score is kept in two ids, exactly."""
        texts = self.rows_of([self.texts_in(row) for row in rows])
        return texts, [ids_of(row["score"]) for row in rows]

    def loss(self, model: Callable[..., Any], batch: TextBatch, carried: Carried) -> Sums:
        """Σ (score − output)²."""
        return self.sums(model, batch, smoothing=0.0)

    def sums(self, model: Callable[..., Any], batch: TextBatch, *, smoothing: float) -> Sums:
        outputs = model(batch.source, batch.lengths, segments=batch.segments)[:, 0]  # B
        loss = F.mse_loss(outputs.float(), batch.targets, reduction="sum")
        return Sums.of(loss, batch.tokens)

    def means(self, sums: Sums) -> dict[str, float]:
        """The mean squared error alone: no score is right or wrong."""
        return {"loss": sums.mean_loss}

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
        """The mean squared error, and the correlation of outputs and scores."""
        total = self.sums_of(model, split, engine=engine, world=world or World())
        measured, outputs = self.means(total), list[Output]()
        if metrics is None or {*metrics} & {*CORRELATIONS}:
            pairs, scores = self.pairs(split), self._scores(model, self.rows_in(split), engine)
            measured |= correlations([float(score) for _, score in pairs], scores)
            outputs = [
                Output(text, score, shown(output))
                for (text, score), output in zip(pairs, scores, strict=True)
            ]
        return Evaluation(total.tokens, measured, outputs=outputs, warnings=self.warnings([split]))

    def _scores(self, model: Any, rows: Sequence[Ids], engine: Engine) -> list[float]:
        scores: list[float] = self.outputs_of(model, rows, width=1, engine=engine)[:, 0].tolist()
        return scores

    def predict(self, model: Any, request: Request, *, engine: Engine) -> Answer:
        """The score of each line of two texts."""
        if request.decode.n_best > 1:
            raise UserError(
                f"n_best={request.decode.n_best}: there is one score for two texts, and no second "
                f"best."
            )
        read = self.read_request(request)
        predictions: list[Prediction] = [Rating(line) for line in request.lines]
        scores = self._scores(model, list(read.ids.values()), engine)
        for number, score in zip(read.ids, scores, strict=True):
            predictions[number] = Rating(request.lines[number], [shown(score)], [score])
        return Answer(predictions, read.counts, read.refusals)

    def trace(
        self,
        model: Any,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes while it reads two texts."""
        score = self.traced(model, text, engine=engine, trace=trace)
        trace.tokens["output"] = [shown(float(score[0, 0]))]
        return trace


def _mean_in(files: dict[str, str], name: str) -> float:
    """The mean score in one of a run's files, given by their texts."""
    if name not in files:
        raise ValueError(f"{name} is missing: it holds the mean of the training scores")
    try:
        stored: dict[str, float] = parse_json(files[name], dict[str, float], where=name)
    except JsonError as error:
        raise ValueError(f"{name} does not hold the mean of scores: {error.reason}") from None
    if stored.keys() != {MEAN} or not math.isfinite(stored[MEAN]):
        raise ValueError(f"{name} does not hold the mean of scores")
    return stored[MEAN]


class Match(Classify):
    """Two texts: a class (entailment, paraphrase) or, if data.score is set, a score (STS)."""

    FILES = (*Classify.FILES, MatchScore.FILES[1])
    FIELDS = (*TEXTS, Field("label", "label"), Field("score", "number"))

    @classmethod
    def fields_of(cls, config: Config) -> tuple[Field, ...]:
        return tuple(field for field in cls.FIELDS if field.name != "score")

    @classmethod
    def learn(cls, config: Config) -> ReadingTask:
        return MatchScore.learn(config) if config.data.score else super().learn(config)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> ReadingTask:
        return MatchScore.open(config, files) if config.data.score else super().open(config, files)


def shown(score: float) -> str:
    """A score as text."""
    return f"{score:.4f}"
