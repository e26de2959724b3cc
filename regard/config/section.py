"""What every group of keys has in common: unknown keys and impossible numbers are refused."""

import math
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, field_validator


def listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


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
