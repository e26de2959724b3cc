"""The configuration of a new run: that of its recipe, with the model of the run named by `init`.

`regard train sst2 --init runs/minilm` is all there is to type: size and parts of the body are those
of its weights, and so is the tokenizer. What a person sets beside it wins, where it can.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard import config as configuration
from regard.config import Config, shown
from regard.config.keys import KINDS
from regard.runs.directory import read_config
from regard.runs.initial_weights import run_and_parts
from regard.system.errors import UserError

WITHOUT_BODY = ("translate", "lm")
"""Tasks whose models generate: they have no `body` that another task could begin with."""
BODIES = ("bert", "transformer")
"""The kinds of model whose body has blocks."""
OWN = ("pooling", "normalize", "crf", "cell", "attention_dropout")
"""Keys of `model` that do not say what its body is: they stay the recipe's.

Dropout of attention weights among them: it makes training slower by far on a CPU.
"""


def configure(recipe: str, settings: Iterable[str] = ()) -> Config:
    """The configuration to train a recipe or a YAML file with; settings: `key=value` each."""
    settings = list(settings)
    config = configuration.load(recipe, settings, inherit=_inherited)
    if config.init:
        _refuse_another_tokenizer(config, settings)
    return config


def _inherited(values: dict[str, Any]) -> dict[str, Any] | None:
    """The model of the run that `init` names, where its body is taken; else None."""
    init, task = values.get("init"), values.get("task", Config.model_fields["task"].default)
    other = _run_with_body(init) if isinstance(init, str) and init else None
    if other is None or task in WITHOUT_BODY or other.model.kind not in KINDS.get(task, ()):
        return None
    model = other.model.model_dump(exclude=set(OWN))
    if other.model.positions == "learned":  # as many as there are, whatever data.max_length is
        model["max_positions"] = other.model.max_positions or other.data.max_length
    written = values.get("model") or {}
    return model | {key: written[key] for key in OWN if key in written}


def _run_with_body(init: str) -> Config | None:
    """The configuration of the run whose body is taken; None if that has none, or it is not."""
    path, parts = run_and_parts(init)
    other = read_config(Path(path))
    has_body = other.task not in WITHOUT_BODY and other.model.kind in BODIES
    wanted = not parts or any(part.partition(".")[0] == "body" for part in parts)
    return other if has_body and wanted else None


def _refuse_another_tokenizer(config: Config, settings: list[str]) -> None:
    """Refuse a setting by which text would become other ids than the weights were trained with."""
    path, parts = run_and_parts(config.init)
    other = _run_with_body(config.init)
    if other is None or not (not parts or {"body", "body.embedding"} & set(parts)):
        return
    for setting in settings:
        section, _, name = setting.partition("=")[0].strip().partition(".")
        if section != "tokenizer" or name == "dropout":
            continue
        ours, theirs = (getattr(one.tokenizer, name) for one in (config, other))
        if ours != theirs:
            raise UserError(
                f"-s {setting}: the embedding of {path} belongs to its own tokenizer, of "
                f"tokenizer.{name}={shown(theirs)}. Leave the setting out, or take other parts "
                f"alone, as in --init {path}:body.encoder."
            )
