"""The JSON that Regard writes, read back: of bounded size and depth, and of the type it had."""

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from regard.system.files import saying_why_unreadable

MOST_BYTES = 2**26
"""A longer text is none of ours."""


class JsonError(ValueError):
    """A JSON text that is not what Regard writes there: where it stands, and what is wrong."""

    def __init__(self, where: object, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.reason = reason


def read_json(path: Path, kind: Any) -> Any:
    """The value in a JSON file; kind: the type that it must have.

    JsonError: it is missing, no JSON, or of another type. UserError: it cannot be read.
    """
    with saying_why_unreadable(path):
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            raise JsonError(path, "it is missing") from None
    return parse_json(text, kind, where=path)


def parse_json(text: str | bytes, kind: Any, *, where: object) -> Any:
    """The value of a JSON text; kind: the type that it must have; where: its place, for messages.

    The parser refuses more than 200 levels of nesting and numbers of more than 4,300 digits.
    """
    if len(text) > MOST_BYTES:
        raise JsonError(where, f"it has more than {MOST_BYTES:,} bytes")
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
    reason = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "json_invalid":
        raise JsonError(where, reason.replace("Invalid JSON", "it is not JSON"))
    key = ".".join(map(str, fault["loc"]))
    raise JsonError(where, f"{key}{key and ': '}{reason[:1].lower()}{reason[1:]}")


@cache
def _adapter(kind: Any) -> TypeAdapter:
    """What checks values of a type; making one takes far longer than using it."""
    return TypeAdapter(kind)
