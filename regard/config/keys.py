"""The keys of a configuration: every one, its type, its default and what it means."""

import math
from collections.abc import Iterable
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SCHEMA = 1
"""The version of this layout; a run made by a newer one is refused."""


class Section(BaseModel):
    """A group of keys."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: Any) -> Any:
        """Python reads true as 1; a number is not meant by it."""
        kind = cls.model_fields[info.field_name].annotation
        if isinstance(value, bool) and {kind, *get_args(kind)} & {int, float, str}:
            raise ValueError(f"{str(value).lower()} is not a value for it")
        return value

    @field_validator("*")
    @classmethod
    def _finite(cls, value: Any) -> Any:
        """Python reads "nan" and "inf" as numbers; no key means anything by them."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("is not a finite number")
        return value


class About(Section):
    """What a recipe is for: shown by `regard recipes`."""

    summary: str = Field("", description="one line: what is learned")
    expected: dict[str, float] = Field({}, description="the score to expect, by metric")
    minutes: float = Field(0.0, ge=0, description="how long training takes on two CPU cores")


class Data(Section):
    """Where the examples come from."""

    train: str = Field(
        "sort", description="a generator's name, or a file: of pairs, or of text for lm"
    )
    valid: str = Field("sort", description="the same, to choose the best weights by")
    test: str = Field("sort", description="the same, to evaluate on")
    directory: str = Field("", description="where the files are; --data sets it")
    source: str = Field(
        "",
        description="the source's column, by name or number (the first is 1), or the end of its "
        "file's name, as en of train.en; for the generator numbers, its language",
    )
    target: str = Field("", description="the same of the target")
    source_language: str = Field(
        "", description="what the source is written in, where data.source does not say"
    )
    text: str = Field("", description="the column of the text to classify, by name or number")
    label: str = Field("", description="the column of its class")
    max_length: int = Field(
        20,
        ge=1,
        le=100_000,
        description="the most tokens a line may have, on either side; for lm, of a stretch",
    )
    on_bad_line: Literal["error", "skip"] = Field(
        "error",
        description="a line that cannot be used: stop and name it, or leave it out and count it",
    )
    scores: Literal["exact", "pronunciation", "translation"] = Field(
        "exact",
        description="what outputs are scored by: exact_match; wer and per, as pronunciations are; "
        "bleu, bleu_lc (capitals or not), chrf and ter",
    )
    target_language: str = Field(
        "",
        description="what the target is written in, such as zh, by which BLEU cuts it into words; "
        "data.target if not given",
    )
    epoch_size: int = Field(
        10_000, ge=1, le=10**8, description="examples of an epoch, where a generator makes them"
    )
    curriculum: int = Field(
        0, ge=0, le=10**6, description="epochs over which parity's sequences grow to max_length"
    )
    fresh: bool = Field(True, description="a generator makes new examples every epoch")
    split_seed: int = Field(
        0, ge=0, lt=2**63, description="draws which of a generator's or a file's examples those are"
    )
    held_out: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="the share of the training file's sources for valid, and as many for test, "
        "where those name the same file",
    )

    @model_validator(mode="after")
    def _one_file_to_split(self) -> "Data":
        if self.held_out and self.train not in (self.valid, self.test):
            raise ValueError(
                f"held_out={self.held_out} is of the file that train names, and neither valid nor "
                f"test names the same"
            )
        return self

    @property
    def languages(self) -> tuple[str, str]:
        """Of the source and of the target."""
        return self.source_language or self.source, self.target_language or self.target


TokenKind = Literal["bpe", "unigram", "wordpiece", "bytes", "words", "chars"]


class Tokenizer(Section):
    """How text becomes token ids."""

    kind: TokenKind = Field(
        "words",
        description="what a token is: what stands between spaces, a character, or a piece of a "
        "word (bytes: pieces of bytes, where nothing is unknown)",
    )
    target_kind: TokenKind | None = Field(
        None, description="the same for the target, where it is another"
    )
    joint: bool = Field(True, description="one vocabulary for source and target")
    lowercase: bool = Field(False, description="read capitals as small letters")
    normalize: Literal["none", "nfc", "nfkc"] = Field(
        "nfc", description="the Unicode form that texts are brought to before all else"
    )
    vocab_size: int = Field(
        32_000,
        ge=5,
        le=10_000_000,
        description="the most tokens to keep, the 4 special ones among them",
    )

    dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="how often a merge of bpe is left out in training, anew each epoch",
    )

    @property
    def kinds(self) -> tuple[TokenKind, TokenKind]:
        """Of the source and of the target."""
        return self.kind, self.target_kind or self.kind

    @property
    def options(self) -> dict[str, Any]:
        """What tokenizers of both sides are made with."""
        return self.model_dump(include={"vocab_size", "lowercase", "normalize"})

    @model_validator(mode="after")
    def _merges_to_leave_out(self) -> "Tokenizer":
        others = sorted(set(self.kinds) - {"bpe", "bytes"})
        if self.dropout and others:
            raise ValueError(f"dropout is for kind=bpe or bytes, and there is kind={others[0]}")
        return self

    @model_validator(mode="after")
    def _room_for_bytes(self) -> "Tokenizer":
        if "bytes" in self.kinds and self.vocab_size < 260:
            raise ValueError(
                f"vocab_size={self.vocab_size} is less than the 260 that kind=bytes begins with "
                f"(256 bytes and 4 special tokens)"
            )
        return self

    @model_validator(mode="after")
    def _one_kind_if_joint(self) -> "Tokenizer":
        if self.joint and len(set(self.kinds)) == 2:
            raise ValueError(
                f"target_kind={self.target_kind} beside kind={self.kind} needs two vocabularies: "
                f"joint=false"
            )
        return self


class Model(Section):
    """What is trained."""

    kind: Literal["transformer", "rnn", "gru", "lstm"] = Field(
        "transformer", description="the Transformer, or recurrent layers of these cells"
    )
    d_model: int = Field(64, ge=1, le=65_536, description="D: the width of the model")
    n_layers: int = Field(
        2,
        ge=1,
        le=1_000,
        description="layers; of the encoder and of the decoder, where there are both",
    )
    decoder_layers: int | None = Field(
        None, ge=1, le=1_000, description="of a Transformer's decoder, where it has not n_layers"
    )
    n_heads: int = Field(
        4, ge=1, le=1_024, description="H: heads of a Transformer; must divide d_model"
    )
    d_ff: int = Field(
        256, ge=1, le=1_000_000, description="F: the width of a Transformer's feed-forward network"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="on embeddings and on every sub-layer or recurrent layer"
    )
    attention_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="on a Transformer's attention weights; above 0 a CPU uses a slower kernel",
    )
    attention: Literal["none", "bahdanau", "luong-dot", "luong-general", "luong-concat"] = Field(
        "bahdanau", description="how a recurrent decoder looks at the source"
    )
    bidirectional: bool = Field(
        True, description="a recurrent encoder or classifier reads both ways"
    )
    pooling: Literal["final", "mean", "max", "attention"] = Field(
        "final", description="what a classifier looks at: the last state, or all of them"
    )
    recurrent_init: Literal["orthogonal", "uniform"] = Field(
        "orthogonal", description="how recurrent weights begin; uniform is torch's default"
    )
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer norm before each sub-layer, or after its sum as in the paper"
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        "sinusoidal",
        description="fixed waves, a trained vector a position, or queries and keys turned by it",
    )
    activation: Literal["relu", "gelu"] = Field("relu", description="of the feed-forward network")
    tie_embeddings: Literal["none", "output", "all"] = Field(
        "all",
        description="one weight for the output and the target embedding (output), and for the "
        "source embedding too (all); true and false mean all and none",
    )
    cell: Literal["fast", "reference"] = Field(
        "fast", description="fused kernels, or every formula written out; the same numbers"
    )

    @field_validator("tie_embeddings", mode="before")
    @classmethod
    def _yes_or_no(cls, value: Any) -> Any:
        return {True: "all", False: "none"}[value] if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _width_divides(self) -> "Model":
        if self.kind == "transformer" and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}; "
                f"it may be {_listed(str(n) for n in range(1, 65) if self.d_model % n == 0)}"
            )
        width = self.d_model // self.n_heads
        if self.kind == "transformer" and self.positions == "rotary" and width % 2:
            raise ValueError(
                f"positions=rotary turns pairs of numbers, and d_model={self.d_model} with "
                f"n_heads={self.n_heads} gives heads of {width}, which is odd"
            )
        return self


class Train(Section):
    """How it is trained."""

    steps: int | None = Field(None, ge=1, le=10**9, description="updates to make; or give epochs")
    epochs: int | None = Field(None, ge=1, le=10**6, description="passes over the training data")
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="rows × longest line of a batch, padding counted; or give batch_size",
    )
    batch_size: int | None = Field(None, ge=1, description="rows of a batch")
    accumulate: int = Field(
        1, ge=1, le=10_000, description="batches whose gradients make one update"
    )
    lr: float = Field(
        1e-3,
        gt=0,
        le=1_000,
        description="the highest learning rate; for noam, a factor on the paper's",
    )
    schedule: Literal["noam", "inverse-sqrt", "cosine", "linear", "constant"] = Field(
        "inverse-sqrt", description="how the learning rate changes; all begin with a warm-up"
    )
    warmup: int = Field(
        400, ge=0, le=10**9, description="updates over which the learning rate rises"
    )
    optimizer: Literal["adam", "adamw"] = Field(
        "adam", description="Adam(0.9, 0.98, 1e-9), or AdamW with decoupled weight decay"
    )
    weight_decay: float = Field(0.0, ge=0, description="of AdamW, on matrices alone")
    clip: float = Field(1.0, ge=0, description="the largest gradient norm; 0 does not clip")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="ε: spread over all C classes as ε/C"
    )
    teacher_forcing: float = Field(
        1.0,
        ge=0,
        le=1,
        description="how often a recurrent decoder is trained on the true last token",
    )
    eval_every: int = Field(500, ge=1, description="updates between evaluations on valid")
    save_every: int = Field(500, ge=1, description="updates between checkpoints")
    keep: int = Field(2, ge=1, description="how many checkpoints to keep, the newest")
    average: int = Field(
        1, ge=1, le=1_000, description="evaluations whose weights are averaged when training ends"
    )
    average_of: Literal["last", "best"] = Field(
        "last", description="which evaluations: the last ones, or the best ones"
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="β of a moving average of the weights, which is evaluated and kept in their "
        "place; 0 for none",
    )
    patience: int | None = Field(
        None, ge=1, description="stop after so many evaluations without a better score"
    )
    metric: Literal[
        "loss",
        "accuracy",
        "token_accuracy",
        "exact_match",
        "wer",
        "per",
        "bleu",
        "bleu_lc",
        "chrf",
        "ter",
    ] = Field("loss", description="the score that says which weights are best")

    @model_validator(mode="after")
    def _one_of_each_pair(self) -> "Train":
        for one, other in (("steps", "epochs"), ("batch_tokens", "batch_size")):
            if (getattr(self, one) is None) == (getattr(self, other) is None):
                raise ValueError(f"give {one} or {other}, and only one of them")
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError("weight_decay needs optimizer=adamw")
        return self


class Decode(Section):
    """How sequences are found, given next-token scores."""

    strategy: Literal["greedy", "beam", "sample"] = Field(
        "greedy",
        description="the best token each time, the best sequences of a beam, or tokens drawn by "
        "their probability",
    )
    beam: int = Field(4, ge=1, le=1_000, description="hypotheses kept for each line by beam search")
    length_penalty: float = Field(
        0.6, ge=0, le=10, description="α of ((5 + length) / 6)^α, which divides log-probabilities"
    )
    n_best: int = Field(1, ge=1, description="hypotheses given back for each line; at most beam")
    max_new_tokens: int = Field(
        64, ge=1, le=100_000, description="where to stop a line that does not end"
    )
    min_length_ratio: float = Field(
        0.0, ge=0, le=100, description="the fewest tokens of an output, for each of its source"
    )
    max_length_ratio: float = Field(
        0.0, ge=0, le=1_000, description="the most, after which it must end; 0 for no such limit"
    )
    no_repeat_ngram: int = Field(
        0, ge=0, le=1_000, description="no stretch of so many tokens is written twice; 0 allows it"
    )
    temperature: float = Field(
        1.0, gt=0, le=100, description="of sampling: below 1 the likely tokens become likelier"
    )
    top_k: int = Field(0, ge=0, description="draw from so many of the best tokens; 0 from all")
    top_p: float = Field(
        1.0, gt=0, le=1, description="draw from the fewest tokens that have this much probability"
    )
    min_p: float = Field(
        0.0, ge=0, le=1, description="draw from tokens at least so likely, as a share of the best"
    )
    seed: int = Field(0, ge=0, lt=2**31, description="of what is drawn")

    @model_validator(mode="after")
    def _no_more_than_the_beam(self) -> "Decode":
        kept = {"greedy": 1, "beam": self.beam, "sample": 1_000}[self.strategy]
        if self.n_best > kept:
            raise ValueError(
                f"n_best={self.n_best} is more than the {kept} that {self.strategy} keeps"
            )
        return self


KINDS = {
    "translate": ("transformer", "rnn", "gru", "lstm"),
    "classify": ("rnn", "gru", "lstm"),
    "lm": ("rnn", "gru", "lstm"),
}
"""The kinds of model that can do each task."""

METRICS: dict[str, tuple[str, ...]] = {
    "translate": ("loss", "token_accuracy"),
    "classify": ("loss", "accuracy"),
    "lm": ("loss", "token_accuracy"),
}
"""What is measured on valid, by task."""

WRITTEN = {
    "exact": ("exact_match",),
    "pronunciation": ("wer", "per"),
    "translation": ("bleu", "bleu_lc", "chrf", "ter"),
}
"""What is measured of the outputs that translate writes, by `data.scores`."""

DECODED = tuple(metric for metrics in WRITTEN.values() for metric in metrics)
"""Metrics that need outputs to be written."""


class Config(Section):
    """Everything that decides what a run does."""

    schema_version: int = Field(SCHEMA, ge=1, le=SCHEMA, description="the layout of this file")
    task: Literal["translate", "classify", "lm"] = Field(
        "translate",
        description="any sequence to sequence, a class for a text, or the next token of a text",
    )
    recipe: str = Field("", description="the recipe that this came from")
    about: About = About()
    seed: int = Field(1, ge=0, lt=2**63, description="of weights, data order and dropout")
    data: Data = Data()
    tokenizer: Tokenizer = Tokenizer()
    model: Model = Model()
    train: Train
    decode: Decode = Decode()

    @model_validator(mode="after")
    def _fits_the_task(self) -> "Config":
        if self.model.kind not in KINDS[self.task]:
            raise ValueError(
                f"model.kind={self.model.kind} is not made for task={self.task}; "
                f"it may be {_listed(KINDS[self.task])}"
            )
        if self.task == "lm" and self.data.held_out:
            raise ValueError("data.held_out splits pairs of texts; lm reads a file for each part")
        halved = self.model.kind != "transformer" and self.model.bidirectional
        if halved and self.task != "lm" and self.model.d_model % 2:
            raise ValueError(
                f"model.d_model={self.model.d_model} is odd: a bidirectional encoder gives half of "
                f"it to each direction"
            )
        metrics = METRICS[self.task]
        if self.task == "translate":
            metrics += WRITTEN[self.data.scores]
        if self.train.metric not in metrics:
            raise ValueError(
                f"train.metric={self.train.metric} is not measured here; "
                f"it may be {_listed(metrics)}"
            )
        return self

    @model_validator(mode="after")
    def _one_vocabulary_if_tied(self) -> "Config":
        tied = self.task == "translate" and self.model.tie_embeddings == "all"
        if tied and not self.tokenizer.joint:
            raise ValueError(
                "model.tie_embeddings=all needs one vocabulary, tokenizer.joint=true; "
                "output ties the target's two weights alone"
            )
        return self


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
