"""From YAML and `key=value` to a checked configuration, and to one sentence on what is wrong."""

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from regard.config.keys import Config
from regard.config.migration import migrate
from regard.config.section import section_type
from regard.system.errors import UserError
from regard.system.schema import SCHEMA

RECIPES = Path(__file__).parent.parent / "recipes"


def recipes() -> dict[str, Path]:
    """The built-in recipes by name."""
    return {path.stem: path for path in sorted(RECIPES.glob("*.yaml"))}


def load(recipe: str, overrides: Iterable[str] = ()) -> Config:
    """The configuration of a recipe or a YAML file to train, with `key=value` overrides."""
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
    for setting in overrides:
        _set(values, setting)
    where = str(path) if is_file else f"recipe {recipe}"
    config = validate(values, where=where)
    config.require_training(where=where)
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
                    problem=f"the key {key.value!r} occurs twice", problem_mark=key.start_mark
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
    for setting in overrides:
        _set(values, setting)
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
        return Config.model_validate(migrate(values))
    except ValidationError as error:
        raise UserError(f"{where}: {_first_fault(error)}") from None


def dump(config: Config) -> str:
    """The configuration as YAML."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def differences(first: Config, second: Config) -> list[str]:
    """The keys, as section.key, in which two configurations differ; `about` aside."""

    def leaves(config: Config) -> dict[str, Any]:
        return {
            f"{section}.{key}" if isinstance(values, dict) else section: value
            for section, values in config.model_dump(exclude={"about"}).items()
            for key, value in (values if isinstance(values, dict) else {section: values}).items()
        }

    before, after = leaves(first), leaves(second)
    return [key for key in before | after if before.get(key) != after.get(key)]


def describe() -> list[tuple[str, str, str, str]]:
    """Every key: its name, what it may be, its default and what it means."""

    def rows(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
        for name, field in section.model_fields.items():
            inner = section_type(field.annotation)
            if inner is not None:
                yield from rows(inner, f"{name}.")
                continue
            default = "" if field.default in (None, "") else str(field.default)
            choices = _choices(field.annotation)
            yield f"{prefix}{name}", choices, default, field.description or ""

    return [row for row in rows(Config, "") if not row[0].startswith("about.")]


def _choices(kind: Any) -> str:
    """A type as a person reads it: its choices, or the kind of value."""
    kinds = (kind, *get_args(kind))
    literal = next((option for option in kinds if get_origin(option) is Literal), None)
    if literal is not None:
        return " | ".join(map(str, get_args(literal)))
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    return next(names[option] for option in kinds if option in names)


def _set(values: dict[str, Any], override: str) -> None:
    """Put `section.key=value` into the values, and take out the other one of an either-or pair."""
    key, equals, text = override.partition("=")
    if not equals:
        raise UserError(f"-s {override}: write key=value, for example -s train.steps=1000.")
    try:
        value = _parse(text)
    except NOT_YAML:
        value = text
    if not isinstance(value, str) and _field_type(key.strip()) is str:
        value = text.strip()  # whatever YAML would make of it
    *sections, name = key.strip().split(".")
    place = values
    for section in sections:
        inner = place.get(section)
        if inner is None:  # absent, or null in the file of a run that was not trained
            inner = place[section] = {}
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
            section = section_type(section.model_fields[part].annotation) or section
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
    """What a key's value must be; nothing, if there is no such key."""
    kind: Any = Config
    for part in key.split("."):
        fields = getattr(section_type(kind), "model_fields", {})
        kind = fields[part].annotation if part in fields else None
    return kind


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
