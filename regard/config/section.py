"""What every group of keys has in common: unknown keys and impossible values are refused."""

import math
import re
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic_core import PydanticCustomError

MOST_CHARACTERS = 4_096
"""A text is a path, a name or a short list: nothing that is longer than this."""
MOST_DIGITS = 1_000
"""No number is written with more; Python does not read many more."""
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")


def listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def section_type(annotation: Any) -> type[BaseModel] | None:
    """The group of keys that a field holds, optional or not; None for a plain value."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


class Section(BaseModel):
    """A group of keys."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_it_was_meant(cls, value: Any, info: Any) -> Any:
        """YAML reads 2 as a number, true as a truth value and nothing as null."""
        kind = cls.model_fields[info.field_name].annotation
        if kind is str:
            return _text(value)
        return _number(value) if {kind, *get_args(kind)} & {int, float} else value

    @field_validator("*")
    @classmethod
    def _finite(cls, value: Any) -> Any:
        """Python reads "inf" and "nan" as numbers; no key means anything by them."""
        numbers = value.values() if isinstance(value, dict) else [value]
        if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
            raise unusable("it is not a finite number")
        return value


def unusable(reason: str) -> PydanticCustomError:
    """An error that is shown with the key and its value."""
    return PydanticCustomError("unusable", "{reason}", {"reason": reason})


def _text(value: Any) -> Any:
    """What was written, as text; what is neither text nor a whole number has to be in quotes."""
    if value is None or type(value) is int:
        return "" if value is None else str(value)
    if isinstance(value, bool | float):
        raise unusable("YAML does not read this as text; put it in quotes")
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise unusable(f"it has {len(value):,} characters, where {MOST_CHARACTERS:,} is the most")
    if isinstance(value, str) and "\0" in value:
        raise unusable("it has a NUL character in it")
    return value


def _number(value: Any) -> Any:
    """The same value, if it can be meant as a number: Python reads true as 1, "nan" as one too."""
    if isinstance(value, bool):
        raise unusable("a number is expected")
    if isinstance(value, str) and len(value) > MOST_DIGITS:
        raise unusable("it is too long for a number")
    if isinstance(value, str) and LEADING_ZERO.fullmatch(value.strip()):
        raise unusable(
            "a number that begins with 0 is octal to some and decimal to others; leave out the 0"
        )
    if _is_nan(value):
        raise unusable("it is not a finite number")
    return value


def _is_nan(value: Any) -> bool:
    try:
        return isinstance(value, str | float) and math.isnan(float(value))
    except ValueError:
        return False
