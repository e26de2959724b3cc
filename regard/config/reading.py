"""From YAML and `key=value` to a checked configuration, and to one sentence on what is wrong."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from regard.config.applies import keys_of, refuse_idle
from regard.config.faults import choices, did_you_mean, field_type, first_fault, shown
from regard.config.keys import HOW_TO_TRAIN, Config
from regard.config.migration import migrate
from regard.config.section import section_type
from regard.config.sizes import SIZES
from regard.config.yaml_text import FaultyYAMLError, parse, write
from regard.system.errors import UserError

RECIPES = Path(__file__).parent.parent / "recipes"


def recipes() -> dict[str, Path]:
    """The built-in recipes by name."""
    return {path.stem: path for path in sorted(RECIPES.glob("*.yaml"))}


Inherit = Callable[[dict[str, Any]], dict[str, Any] | None]
"""The values of a configuration -> its section `model`, if that is another run's."""


def load(recipe: str, overrides: Iterable[str] = (), *, inherit: Inherit | None = None) -> Config:
    """The configuration of a recipe or a YAML file to train, with `key=value` overrides.

    inherit: says what stands in place of the recipe's section `model`, under the overrides.
    """
    overrides = list(overrides)
    known = recipes()
    is_file = recipe.endswith((".yaml", ".yml"))
    if not is_file and recipe not in known:
        raise UserError(
            f"There is no recipe {shown(recipe)}{did_you_mean(recipe, known)}. There are: "
            f"{', '.join(known)}; or give a FILE.yaml."
        )
    path = Path(recipe) if is_file else known[recipe]
    where = str(path) if is_file else f"recipe {recipe}"
    written = migrate(read_yaml(path), where=where)
    values: dict[str, Any] = {"recipe": path.stem} | deepcopy(written)
    keys = _set_all(values, overrides)
    inherited = None if inherit is None else inherit(values)
    if inherited is not None:
        values = {"recipe": path.stem} | deepcopy(written) | {"model": inherited}
        _set_all(values, overrides)
    if "train" in values and values["train"] is None:
        raise UserError(f"{where}: the section 'train' is empty: {HOW_TO_TRAIN}")
    config = validate(values, where=where)
    config.require_training(where=where)
    refuse_idle(config, keys, where=where)
    if is_file and "schema_version" not in written:  # neither a recipe nor the file of a run
        own = [key for key in keys_of(written) if key not in keys]
        refuse_idle(config, own, where=where, written=written)
    return config


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
        values = parse(read_text(path))
    except FaultyYAMLError as error:
        line = "" if error.line is None else f":{error.line}"
        raise UserError(f"{path}{line}: not YAML: {error.reason}.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no configuration: keys and values are expected.")
    return values


def override(config: Config, overrides: Iterable[str], *, where: str) -> Config:
    """A configuration with `key=value` overrides."""
    values = config.model_dump()
    keys = _set_all(values, overrides)
    overridden = validate(values, where=where)
    refuse_idle(overridden, keys, where=where)
    return overridden


def validate(values: dict[str, Any], *, where: str) -> Config:
    """A checked configuration, or one sentence on the first thing wrong with it."""
    try:
        return Config.model_validate(migrate(values, where=where))
    except ValidationError as error:
        raise UserError(f"{where}: {first_fault(error)}") from None


def dump(config: Config) -> str:
    """The configuration as YAML."""
    return write(config.model_dump())


def describe() -> list[tuple[str, str, str, str]]:
    """Every key: its name, what it may be, its default and what it means."""

    def rows(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
        for name, field in section.model_fields.items():
            inner = section_type(field.annotation)
            if inner is not None:
                yield from rows(inner, f"{name}.")
                continue
            default = "" if field.default in (None, "") else str(field.default)
            yield f"{prefix}{name}", choices(field.annotation), default, field.description or ""

    return [row for row in rows(Config, "") if not row[0].startswith("about.")]


def _set_all(values: dict[str, Any], overrides: Iterable[str]) -> list[str]:
    """Put every `section.key=value` into the values; the keys.

    A size comes first: it takes the place of the keys in the file that it stands for, and the
    settings beside it win.
    """
    ordered = sorted(overrides, key=lambda setting: not setting.strip().startswith("model.size="))
    return [_set(values, setting) for setting in ordered]


def _set(values: dict[str, Any], override: str) -> str:
    """Put `section.key=value` into the values; the key.

    The other one of an either-or pair is taken out.
    """
    key, equals, text = override.partition("=")
    if not equals:
        raise UserError(f"-s {shown(override)}: write key=value, for example -s train.steps=1000.")
    kind = field_type(key.strip())
    if section_type(kind) is not None:
        name = key.strip()
        raise UserError(
            f"-s {shown(override)}: {name} is a section: its keys are set one by one, as "
            f"{name}.name=value."
        )
    *sections, name = key.strip().split(".")
    place = values
    for section in sections:
        inner = place.get(section)
        if inner is None:  # absent, or null in the file of a run that was not trained
            inner = place[section] = {}
        if not isinstance(inner, dict):
            raise UserError(f"-s {shown(override)}: {section} is not a section.")
        place = inner
    either = {"steps": "epochs", "epochs": "steps"} | {
        "batch_tokens": "batch_size",
        "batch_size": "batch_tokens",
    }
    if sections == ["train"] and name in either:
        place.pop(either[name], None)
    place[name] = _value(text, kind)
    if key.strip() == "model.size":
        for sized in SIZES.get(text.strip(), ()):
            place.pop(sized, None)
    return key.strip()


def _value(text: str, kind: Any) -> Any:
    """What a setting says, as a value of this type; text needs no quotes, and may have them."""
    if kind is str and not text.strip().startswith(("'", '"')):
        return text.strip()
    try:
        return parse(text)
    except FaultyYAMLError:
        return text
