"""What every group of keys has in common: unknown keys and impossible numbers are refused."""

import math
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, field_validator


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
        """YAML reads 2 as a number, no as false and nothing as null; Python reads true as 1."""
        kind = cls.model_fields[info.field_name].annotation
        if kind is str and (value is None or type(value) is int):
            return "" if value is None else str(value)
        if kind is str and not isinstance(value, str | dict | list):
            read = str(value).lower() if isinstance(value, bool) else repr(value)
            raise ValueError(f"YAML reads this as {read} and not as text; put it in quotes")
        if isinstance(value, bool) and {kind, *get_args(kind)} & {int, float}:
            raise ValueError(f"{str(value).lower()} is not a value for it")
        return value

    @field_validator("*")
    @classmethod
    def _finite(cls, value: Any) -> Any:
        """Python reads "nan" and "inf" as numbers; no key means anything by them."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("is not a finite number")
        return value
