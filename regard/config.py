"""A run's whole configuration: every key, its type, its default and what it means.

The same words stand in YAML, in Python, in `-s section.key=value` and in `--help`. Unknown keys
are refused, and every value is checked when the run starts.
"""

import difflib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from regard.errors import UserError

SCHEMA = 1
"""The version of this layout; a run made by a newer one is refused."""

RECIPES = Path(__file__).parent / "recipes"


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

    train: str = Field("sort", description="a generator's name, or a file of pairs")
    valid: str = Field("sort", description="the same, to choose the best weights by")
    test: str = Field("sort", description="the same, to evaluate on")
    directory: str = Field("", description="where the files are; --data sets it")
    source: str = Field("", description="the language that the generator numbers begins with")
    target: str = Field("", description="the language that it goes to")
    max_length: int = Field(
        20, ge=1, le=100_000, description="the most tokens a line may have, on either side"
    )
    on_bad_line: Literal["error", "skip"] = Field(
        "error",
        description="a line that cannot be used: stop and name it, or leave it out and count it",
    )
    scores: Literal["exact", "pronunciation"] = Field(
        "exact",
        description="what outputs are scored by: exact_match, or wer and per as pronunciations are",
    )
    epoch_size: int = Field(
        10_000, ge=1, le=10**8, description="examples of an epoch, where a generator makes them"
    )
    curriculum: int = Field(
        0, ge=0, le=10**6, description="epochs over which parity's sequences grow to max_length"
    )
    fresh: bool = Field(True, description="a generator makes new examples every epoch")
    split_seed: int = Field(
        0, ge=0, lt=2**63, description="draws which of a generator's examples are held out"
    )


class Tokenizer(Section):
    """How text becomes token ids."""

    kind: Literal["words", "chars"] = Field(
        "words", description="what a token is: what stands between spaces, or a character"
    )
    target_kind: Literal["words", "chars"] | None = Field(
        None, description="the same for the target, where it is another"
    )
    joint: bool = Field(True, description="one vocabulary for source and target")
    lowercase: bool = Field(False, description="read capitals as small letters")
    vocab_size: int = Field(
        32_000,
        ge=5,
        le=10_000_000,
        description="the most tokens to keep, the 4 special ones among them",
    )

    @property
    def kinds(self) -> tuple[Literal["words", "chars"], Literal["words", "chars"]]:
        """Of the source and of the target."""
        return self.kind, self.target_kind or self.kind

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
        "transformer", description="the Transformer, or a recurrent encoder-decoder of these cells"
    )
    d_model: int = Field(64, ge=1, le=65_536, description="D: the width of the model")
    n_layers: int = Field(
        2, ge=1, le=1_000, description="layers of the encoder, and of the decoder"
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
    bidirectional: bool = Field(True, description="a recurrent encoder reads in both directions")
    pooling: Literal["final", "mean", "max", "attention"] = Field(
        "final", description="what a classifier looks at: the last state, or all of them"
    )
    recurrent_init: Literal["orthogonal", "uniform"] = Field(
        "orthogonal", description="how recurrent weights begin; uniform is torch's default"
    )
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer norm before each sub-layer, or after its sum as in the paper"
    )
    positions: Literal["sinusoidal", "learned"] = Field(
        "sinusoidal", description="fixed waves, or a trained vector a position"
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
        if self.kind != "transformer" and self.bidirectional and self.d_model % 2:
            raise ValueError(
                f"d_model={self.d_model} is odd: a bidirectional encoder gives half of it to each "
                f"direction"
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
    patience: int | None = Field(
        None, ge=1, description="stop after so many evaluations without a better score"
    )
    metric: Literal["loss", "accuracy", "token_accuracy", "exact_match", "wer", "per"] = Field(
        "loss", description="the score that says which weights are best"
    )

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

    strategy: Literal["greedy", "beam"] = Field(
        "greedy", description="the best token each time, or the best sequences of a beam"
    )
    beam: int = Field(4, ge=1, le=1_000, description="hypotheses kept for each line by beam search")
    length_penalty: float = Field(
        0.6, ge=0, le=10, description="α of ((5 + length) / 6)^α, which divides log-probabilities"
    )
    n_best: int = Field(1, ge=1, description="hypotheses given back for each line; at most beam")
    max_new_tokens: int = Field(
        64, ge=1, le=100_000, description="where to stop a line that does not end"
    )

    @model_validator(mode="after")
    def _no_more_than_the_beam(self) -> "Decode":
        kept = self.beam if self.strategy == "beam" else 1
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

WRITTEN = {"exact": ("exact_match",), "pronunciation": ("wer", "per")}
"""What is measured of the outputs that translate writes, by `data.scores`."""


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


def recipes() -> dict[str, Path]:
    """The built-in recipes by name."""
    return {path.stem: path for path in sorted(RECIPES.glob("*.yaml"))}


def load(recipe: str, overrides: Iterable[str] = ()) -> Config:
    """The configuration of a built-in recipe or a YAML file, with `key=value` overrides."""
    known = recipes()
    is_file = recipe.endswith((".yaml", ".yml"))
    if not is_file and recipe not in known:
        raise UserError(
            f"There is no recipe {recipe!r}{_did_you_mean(recipe, known)}. There are: "
            f"{', '.join(known)}; or give a FILE.yaml."
        )
    path = Path(recipe) if is_file else known[recipe]
    values = read_yaml(path)
    values.setdefault("recipe", path.stem)
    for override in overrides:
        _set(values, override)
    return validate(values, where=str(path) if is_file else f"recipe {recipe}")


def read_text(path: Path) -> str:
    """The text of a file, or one sentence on why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{path} cannot be read: {reason}.") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        values = _parse(read_text(path))
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}: not YAML: {error.problem}.") from None
    except NOT_YAML:
        raise UserError(f"{path} is not YAML.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no configuration: keys and values are expected.")
    return values


NOT_YAML = (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, RecursionError)
"""What the parser raises on text that is no YAML, or no value of the type that it looks like."""


class _Loader(yaml.SafeLoader):
    """Plain data, and no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _parse(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def override(config: Config, overrides: Iterable[str], *, where: str) -> Config:
    """A configuration with `key=value` overrides."""
    values = config.model_dump()
    for one in overrides:
        _set(values, one)
    return validate(values, where=where)


def validate(values: dict[str, Any], *, where: str) -> Config:
    """A checked configuration, or one sentence on the first thing wrong with it."""
    version = values.get("schema_version", SCHEMA)
    if str(version).split(".")[0].isdigit() and float(version) > SCHEMA:
        raise UserError(
            f"{where}: made by a newer Regard (schema {version}; this one reads up to {SCHEMA}). "
            f"Install the newer version to open it."
        )
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{where}: {_first_fault(error)}") from None


def dump(config: Config) -> str:
    """The configuration as YAML."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def differences(one: Config, other: Config) -> list[str]:
    """The keys, as section.key, in which two configurations differ; `about` aside."""

    def leaves(config: Config) -> dict[str, Any]:
        return {
            f"{section}.{key}" if isinstance(values, dict) else section: value
            for section, values in config.model_dump(exclude={"about"}).items()
            for key, value in (values if isinstance(values, dict) else {section: values}).items()
        }

    first, second = leaves(one), leaves(other)
    return [key for key in first if first[key] != second[key]]


def describe() -> list[tuple[str, str, str, str]]:
    """Every key: its name, what it may be, its default and what it means."""

    def rows(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
        for name, field in section.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from rows(kind, f"{name}.")
            else:
                default = "" if field.default in (None, "") else str(field.default)
                yield f"{prefix}{name}", _choices(kind), default, field.description or ""

    return [row for row in rows(Config, "") if not row[0].startswith("about.")]


def _choices(kind: Any) -> str:
    """A type as a person reads it: its choices, or the kind of value."""
    options = next((one for one in (kind, *get_args(kind)) if get_origin(one) is Literal), None)
    if options is not None:
        return " | ".join(map(str, get_args(options)))
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    return next(names[one] for one in (kind, *get_args(kind)) if one in names)


def _set(values: dict[str, Any], override: str) -> None:
    """Put `section.key=value` into the values, and take out the other one of an either-or pair."""
    key, equals, text = override.partition("=")
    if not equals:
        raise UserError(f"-s {override}: write key=value, for example -s train.steps=1000.")
    try:
        value = _parse(text)
    except NOT_YAML:
        value = text
    *sections, name = key.strip().split(".")
    place = values
    for section in sections:
        inner = place.setdefault(section, {})
        if not isinstance(inner, dict):
            raise UserError(f"-s {override}: {section} is not a section.")
        place = inner
    either = {"steps": "epochs", "epochs": "steps"} | {
        "batch_tokens": "batch_size",
        "batch_size": "batch_tokens",
    }
    if sections == ["train"] and name in either:
        place.pop(either[name], None)
    place[name] = value


def _first_fault(error: ValidationError) -> str:
    """The first thing that pydantic found wrong, as a sentence with the key."""
    fault = error.errors()[0]
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        *sections, name = [str(part) for part in fault["loc"]]
        section: type[BaseModel] = Config
        for part in sections:
            section = section.model_fields[part].annotation  # type: ignore[assignment]
        known = list(section.model_fields)
        return f"unknown key {key!r}{_did_you_mean(name, known)}. Known here: {', '.join(known)}."
    if fault["type"] == "missing":
        return f"the key {key!r} is missing."
    if fault["type"] == "value_error":
        return f"{key}{': ' if key else ''}{fault['ctx']['error']}."
    if fault["type"] == "literal_error":
        choices = _choices(_field_type(key)).replace(" | ", ", ")
        return f"{key}={fault['input']!r} is not one of {choices}."
    if fault["type"] in ("model_type", "dict_type"):
        return f"{key} is a section: its keys are set one by one, as {key}.name=value."
    message = fault["msg"][0].lower() + fault["msg"][1:]
    return f"{key}={_short(fault['input'])}: {message}."


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _field_type(key: str) -> Any:
    section: Any = Config
    for part in key.split("."):
        section = section.model_fields[part].annotation
    return section


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
