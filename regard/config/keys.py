"""A run's whole configuration: its sections, and what must hold between them."""

from typing import Literal

from pydantic import Field, model_validator

from regard.config.data_keys import Data, Tokenization
from regard.config.metrics import OUTPUT_METRICS, PAIR_METRICS, SCORE_METRICS, TASK_METRICS
from regard.config.model_keys import Model
from regard.config.run_keys import Decode, Train
from regard.config.section import Section, listed
from regard.system.errors import UserError
from regard.system.schema import SCHEMA


class About(Section):
    """What a recipe is for: shown by `regard recipes`."""

    summary: str = Field("", description="one line: what is learned")
    expected: dict[str, float] = Field({}, description="the score to expect, by metric")
    minutes: float = Field(0.0, ge=0, description="how long training takes on one or two CPU cores")


HOW_TO_TRAIN = "it says how to train, as in -s train.steps=1000 -s train.batch_size=32."
MISSING_TRAIN = f"the key 'train' is missing: {HOW_TO_TRAIN}"
NOT_TRAINED = (
    "task=embed is not trained by itself: import an encoder, as in regard import minilm, or take "
    "the vectors of a run that was trained for another task with regard embed RUN"
)

KINDS = {
    "translate": ("transformer", "rnn", "gru", "lstm"),
    "classify": ("rnn", "gru", "lstm", "transformer", "bert", "cnn", "bag"),
    "match": ("rnn", "gru", "lstm", "transformer", "bert", "cnn", "bag"),
    "lm": ("gpt", "rnn", "gru", "lstm"),
    "mlm": ("bert", "transformer"),
    "embed": ("bert", "transformer"),
    "tag": ("bert", "transformer", "rnn", "gru", "lstm"),
    "span": ("bert", "transformer"),
}
"""The kinds of model that can do each task."""

READ_WHOLE = ("classify", "match", "mlm")
"""The tasks whose model reads one text or two whole."""


class Config(Section):
    """Everything that decides what a run does."""

    schema_version: int = Field(SCHEMA, ge=SCHEMA, le=SCHEMA, description="the layout of this file")
    task: Literal["translate", "classify", "match", "lm", "mlm", "embed", "tag", "span"] = Field(
        "translate",
        description="any sequence to sequence, a class for a text, a class or a score for two "
        "(match), the next token of a text, the masked words of a text (mlm), a vector for a "
        "text (embed, which is imported and not trained), a tag for every word, or the part of a "
        "text that answers a question (span)",
    )
    recipe: str = Field("", description="the recipe that this came from")
    about: About = About()
    seed: int = Field(
        1, ge=0, lt=2**63, description="random seed for weights, data order and dropout"
    )
    init: str = Field(
        "",
        description="the run whose weights training begins with, and which parts of it, as "
        "runs/a:encoder; --init sets it",
    )
    data: Data = Data()
    tokenizer: Tokenization = Tokenization()
    model: Model = Model()
    train: Train | None = None
    decode: Decode = Decode()

    @property
    def training(self) -> Train:
        """The section `train` of a run that is trained; an imported run may have none."""
        if self.train is None:
            raise UserError(f"{self.recipe or 'The configuration'}: {MISSING_TRAIN}")
        return self.train

    def require_training(self, *, where: str) -> None:
        """Refuse to train where the configuration does not say how, or on what."""
        if self.task == "embed":
            raise UserError(f"{where}: {NOT_TRAINED}.")
        if self.train is None:
            raise UserError(f"{where}: {MISSING_TRAIN}")
        for split in ("train", "valid", "test"):
            if not getattr(self.data, split):
                raise UserError(
                    f"{where}: the key 'data.{split}' is missing: name a file or a generator, as "
                    f"in -s data.{split}=FILE."
                )

    @model_validator(mode="after")
    def _fits_the_task(self) -> "Config":
        if self.model.kind not in KINDS[self.task]:
            raise ValueError(
                f"model.kind={self.model.kind} is not available for task={self.task}; "
                f"it may be {listed(KINDS[self.task])}"
            )
        unknown = {"classify": "cls", "embed": "attention"}.get(self.task)
        if self.model.pooling == unknown:
            raise ValueError(f"model.pooling={unknown} is not available for task={self.task}")
        if self.task == "span" and self.data.stride >= self.data.max_length - 3:
            raise ValueError(
                f"data.stride={self.data.stride} leaves no room for new tokens in windows of "
                f"data.max_length={self.data.max_length}: make it smaller, or max_length larger"
            )
        kinds = ("chars", "bytes")
        if (
            self.task == "lm"
            and self.data.documents != "lines"
            and self.tokenizer.kind not in kinds
        ):
            raise ValueError(
                f"data.documents={self.data.documents} keeps line breaks within a document, which "
                f"needs tokenizer.kind={listed(kinds)}, not {self.tokenizer.kind}"
            )
        halved = self.model.recurrent and self.model.bidirectional
        if halved and self.task != "lm" and self.model.d_model % 2:
            raise ValueError(
                f"model.d_model={self.model.d_model} is odd: a bidirectional encoder gives half of "
                f"it to each direction"
            )
        return self

    @model_validator(mode="after")
    def _texts_fit_the_model(self) -> "Config":
        model, most = self.model, self.data.max_length
        if self.task not in READ_WHOLE or not model.framed:
            return self
        pairs = self.task == "mlm" and self.data.sentence_pairs != "none"
        paired = pairs or self.task == "match" or self.data.text_pair
        if most < (5 if paired else 3):  # two texts with three special tokens
            raise ValueError(
                f"data.max_length={most} leaves no room for a text: model.kind={model.kind} reads "
                f"<s> text </s>"
            )
        if model.positions == "learned" and model.max_positions and model.max_positions < most:
            raise ValueError(
                f"data.max_length={most} is more than model.max_positions={model.max_positions}"
            )
        return self

    @model_validator(mode="after")
    def _a_class_or_a_score(self) -> "Config":
        if self.task == "match" and self.data.score and self.data.label:
            raise ValueError(
                "data.label and data.score are both set: match learns a class or a score of two "
                "texts; leave one out"
            )
        return self

    @model_validator(mode="after")
    def _training_fits_the_task(self) -> "Config":
        if self.train is None:
            return self
        if self.task == "embed":
            raise ValueError(NOT_TRAINED)
        if self.task != "translate" and self.train.r_drop:
            raise ValueError(f"train.r_drop is for task=translate, not task={self.task}")
        has_body = self.task == "classify" and not self.model.recurrent
        if self.train.contrastive and not has_body:
            raise ValueError(
                f"train.contrastive is for task=classify with model.kind=bert or transformer, not "
                f"task={self.task} with model.kind={self.model.kind}"
            )
        if self.task == "lm" and self.model.recurrent and self.train.shares > 1:
            raise ValueError(
                f"train.shares={self.train.shares}: in lm, a recurrent model carries a state from "
                f"batch to batch, so its rows cannot be split; leave it at 1"
            )
        if self.task == "span" and self.train.label_smoothing:
            raise ValueError(
                f"train.label_smoothing={self.train.label_smoothing} would put probability on "
                f"tokens of the question, which are no answer: leave it at 0 for task=span"
            )
        if self.model.crf and self.train.label_smoothing:
            raise ValueError(
                f"train.label_smoothing={self.train.label_smoothing} is of single tags, and "
                f"model.crf=true scores whole sequences of them: set one of the two"
            )
        rated = self.task == "match" and self.data.score
        metrics = SCORE_METRICS if rated else TASK_METRICS[self.task]
        if self.task == "mlm":
            metrics += PAIR_METRICS[self.data.sentence_pairs]
        if self.task == "tag" and self.data.scheme == "none":
            metrics = metrics[:2]  # there are no entities
        if self.task == "translate":
            metrics += OUTPUT_METRICS[self.data.scores]
        if self.train.metric not in metrics:
            raise ValueError(
                f"train.metric={self.train.metric} is not measured here; "
                f"it may be {listed(metrics)}"
            )
        return self

    @model_validator(mode="after")
    def _one_vocabulary_if_tied(self) -> "Config":
        tied = self.task == "translate" and self.model.tie_embeddings == "all"
        if tied and not self.tokenizer.joint:
            raise ValueError(
                "model.tie_embeddings=all needs one vocabulary, tokenizer.joint=true; "
                "output ties only the two weights of the target"
            )
        return self
