"""What the `config.json` of a foreign model says, and what it cannot say, of any family."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from regard.pretrained.names import Table
from regard.system.errors import UserError
from regard.system.json_files import JsonError, read_json

ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "relu2": "squared-relu",
}
"""Their names of activations, and ours; of several, the first is written."""


@dataclass(frozen=True)
class Architecture:
    """What the configuration of a foreign model says."""

    keys: dict[str, Any]
    """The section `model` of a run."""
    context: int
    """How many tokens it can read."""
    vocab: int
    table: Table
    """Where its weights stand."""
    zero: frozenset[str] = frozenset()
    """Biases that it does not have, though it has others."""
    copies: frozenset[str] = frozenset()
    """Weights of theirs that are written a second time, under these names."""
    task: str = "lm"
    rows: tuple[str, ...] = ("embedding.tokens.weight", "output.weight")
    """Our weights that have one row per token."""
    data: dict[str, Any] = field(default_factory=dict)
    """Keys of the section `data`, beside its max_length."""
    framed: bool = False
    """Whether it reads `[CLS] text [SEP]`, with BERT's tokenizer."""
    files: dict[str, str] = field(default_factory=dict)
    """The texts of the files that the task needs beside its tokenizer."""


class ForeignConfig(BaseModel):
    """A config.json: what is not named here changes nothing that is computed."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())


def read_config(path: Path, kind: Any) -> Any:
    """A `config.json` as a value of this type, or one sentence on why it is none."""
    try:
        return read_json(path, kind)
    except JsonError as error:
        raise UserError(f"{error}.") from None


def activation_of(name: str, *, where: str) -> str:
    """Our name of an activation."""
    if name not in ACTIVATIONS:
        raise UserError(
            f"{where}: the activation {name!r} is not supported; it may be "
            f"{', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[name]


def refuse_differences(where: str, differences: dict[str, bool]) -> None:
    """Refuse the first thing in which a model differs from its family."""
    for name, differs in differences.items():
        if differs:
            raise UserError(f"{where}: {name} is not supported: the model computes differently.")


def activation_named(ours: str) -> str:
    """Their name of an activation."""
    return next(name for name, value in ACTIVATIONS.items() if value == ours)


def refuse_export(family: str, unlike: dict[str, bool]) -> None:
    """Refuse the first key by which a model is not of a family."""
    for key, differs in unlike.items():
        if differs:
            raise UserError(f"--to hf: {family} has no model.{key}; this model cannot be exported.")
