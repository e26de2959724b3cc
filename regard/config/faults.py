"""What is wrong with a configuration, in one sentence that shows the key and its value."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from regard.config.keys import Config
from regard.config.section import section_type

EXPECTED = {
    "int": "a whole number in decimal digits is expected",
    "float": "a number in decimal digits is expected",
    "bool": "true or false is expected",
    "string": "text is expected",
    "finite": "it is not a finite number",
}
"""What an error of the library means, by the first word of its type."""

LONGEST_SHOWN = 60
"""Characters of a value that a message shows."""

_brief = reprlib.Repr()
_brief.maxstring = LONGEST_SHOWN
_brief.maxother = LONGEST_SHOWN
_brief.maxlong = LONGEST_SHOWN
_brief.maxlevel = 2


def shown(value: object) -> str:
    """A value as a message shows it: on one line, and short, however much it holds."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 1_000:
        return "a number of hundreds of digits"
    text = _brief.repr(value)
    return text if len(text) <= 2 * LONGEST_SHOWN else f"{text[: 2 * LONGEST_SHOWN]}…"


def first_fault(error: ValidationError) -> str:
    """The first thing that pydantic found wrong, as a sentence with the key and its value."""
    fault = error.errors(include_url=False)[0]
    path = [str(part) for part in fault["loc"]]
    key, kind, value = _key(path), fault["type"], fault["input"]
    if kind == "extra_forbidden":
        known = list(_section(path[:-1]).model_fields)
        guess = did_you_mean(path[-1], known)
        return f"unknown key {shown('.'.join(path))}{guess}. Known here: {', '.join(known)}."
    if kind == "value_error":
        return f"{key}{': ' if key else ''}{fault['ctx']['error']}."
    if kind == "literal_error":
        known = choices(field_type(key)).split(" | ")
        return f"{key}={shown(value)} is not one of {', '.join(known)}."
    if kind in ("model_type", "dict_type") and value is None:
        return f"{key} is empty: put keys under it, or remove it."
    if kind in ("model_type", "dict_type"):
        return f"{key} is a section: its keys are set one by one, as {key}.name=value."
    message = expected(kind) or fault["msg"].replace("Input should", "it must")
    return f"{key}={shown(value)}: {message}."


def expected(kind: str) -> str | None:
    """What was expected where pydantic reports a fault of this type; None if it says it well."""
    return EXPECTED.get(kind.partition("_")[0])


def _key(path: list[str]) -> str:
    """A key as it is written, on one line."""
    key = ".".join(path)
    return key if key.isprintable() and len(key) <= 2 * LONGEST_SHOWN else shown(key)


def _section(path: Iterable[str]) -> type[BaseModel]:
    section: type[BaseModel] = Config
    for part in path:
        section = section_type(section.model_fields[part].annotation) or section
    return section


def field_type(key: str) -> Any:
    """What a key's value must be; None, if there is no such key."""
    kind: Any = Config
    for part in key.split("."):
        fields = getattr(section_type(kind), "model_fields", {})
        kind = fields[part].annotation if part in fields else None
    return kind


def choices(kind: Any) -> str:
    """A type as a person reads it: its choices, or the kind of value."""
    kinds = (kind, *get_args(kind))
    literal = next((option for option in kinds if get_origin(option) is Literal), None)
    if literal is not None:
        return " | ".join(map(str, get_args(literal)))
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    return next(names[option] for option in kinds if option in names)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A guess at which of the known names was meant, in brackets, if one is close."""
    close = difflib.get_close_matches(name[:LONGEST_SHOWN], list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
