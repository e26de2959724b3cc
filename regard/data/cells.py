"""From the cells of a line to the values of a row's fields, one reader per kind of field.

A cell is a text, as in tables, or any value that JSON and Parquet have.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.lines import why_unreadable
from regard.data.rows import AnswerSpan, Fault, Field, Kind, Record, Row

QUOTED = 40
"""Characters of a faulty value that are shown in a message."""

Values = Mapping[str, Any]


class UnusableError(ValueError):
    """Why a cell cannot be used; kind: the reason without its numbers, if that is different."""

    def __init__(self, reason: str, kind: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind


class AbsentError(ValueError):
    """The cell holds nothing of the field's kind."""


def make_row(
    files: Sequence[Path],
    line: int,
    cells: Sequence[object],
    *,
    fields: Sequence[Field],
    keys: Sequence[str],
) -> Record:
    """A row of these cells, or the fault of the first that cannot be used.

    files and keys: the file and the name of each cell's column.
    """
    values: dict[str, Any] = {}
    for number, field in enumerate(fields):
        try:
            values[field.name] = READERS[field.kind](cells[number], field, values)
        except AbsentError:
            reason = f"no {field.kind} under {keys[number]!r}"
            return Fault(files[number], line, reason, f"there is {reason}")
        except UnusableError as error:
            return Fault(files[number], line, error.reason, error.kind)
    return Row(files[0], line, values)


def _text(cell: object, field: Field, values: Values) -> str:
    text = _string(cell)
    if not text or text.isspace():
        raise UnusableError(f"the {field.name} {'are' if field.plural else 'is'} empty")
    return text


def _string(cell: object) -> str:
    """The cell as a text; numbers too, for a class may be named by one."""
    if isinstance(cell, bytes):
        cell = cell.decode(errors="surrogateescape")
    if cell is None or isinstance(cell, dict | list):
        raise AbsentError
    text = cell if isinstance(cell, str) else str(cell)
    fault = why_unreadable(text)
    if fault is not None:
        raise UnusableError(fault, f"the line is {fault}")
    return text


def _number(cell: object, field: Field, values: Values) -> float:
    text = _text(cell, field, values)
    try:
        number = math.nan if "_" in text else float(text)  # Python's 1_000 is no number in a file
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        kind = f"the {field.name} is no number"
        raise UnusableError(f"{kind}: {text[:QUOTED]!r}", kind)
    return number


def _words(cell: object, field: Field, values: Values) -> tuple[str, ...]:
    if not isinstance(cell, list):
        # Only plain spaces: a word may hold others, as "10 000" does in French.
        return tuple(word for word in _text(cell, field, values).split(" ") if word)
    words = tuple(map(_string, cell))
    if not words:
        raise UnusableError(f"the {field.name} are empty")
    for number, word in enumerate(words, start=1):
        if not word or word.isspace():
            raise UnusableError(
                f"number {number:,} of the {field.name} is empty",
                f"one of the {field.name} is empty",
            )
    return words


def _characters(cell: object, field: Field, values: Values) -> tuple[str, ...]:
    if isinstance(cell, list):
        return _words(cell, field, values)
    return tuple("".join(_text(cell, field, values).split()))


def _tags(cell: object, field: Field, values: Values) -> tuple[str, ...]:
    tags, words = _words(cell, field, values), values[field.of]
    if len(tags) != len(words):
        raise UnusableError(
            f"{len(tags):,} {field.name} where there are {len(words):,} {field.of}",
            f"there are not as many {field.name} as {field.of}",
        )
    return tags


def _answers(cell: object, field: Field, values: Values) -> tuple[AnswerSpan, ...]:
    """An empty list is a question that its context does not answer, as in SQuAD 2.0."""
    return tuple(
        AnswerSpan(text, _start(text, given, values[field.of], field))
        for text, given in _given_answers(cell, field, values)
    )


def _given_answers(cell: object, field: Field, values: Values) -> Iterator[tuple[str, object]]:
    """The text of each answer and its start, None where it is not given.

    {"text": [...], "answer_start": [...]}, a list of {"text", "answer_start"} or of texts, or one.
    """
    if isinstance(cell, list):
        for answer in cell:
            yield from _given_answers(answer, field, values)
    elif isinstance(cell, dict):
        texts, starts = cell.get("text"), cell.get("answer_start")
        if not isinstance(texts, list):
            texts, starts = [texts], [starts]
        elif starts is None:
            starts = [None] * len(texts)
        if not isinstance(starts, list) or len(starts) != len(texts):
            raise UnusableError(f"the {field.name} have not as many answer_start as text")
        for text, start in zip(texts, starts, strict=True):
            yield _text(text, field, values), start
    else:
        yield _text(cell, field, values), None


def _start(text: str, given: object, context: str, field: Field) -> int:
    """Where the answer begins in its context: as given, or else where it first occurs."""
    kind = f"one of the {field.name} is not in its {field.of}"
    quoted = f"the answer {text[:QUOTED]!r}"
    if given is None:
        start = context.find(text)
        if start < 0:
            raise UnusableError(f"{quoted} is not in its {field.of}", kind)
        return start
    if isinstance(given, bool) or not isinstance(given, int):
        raise UnusableError(
            f"{quoted} has answer_start={str(given)[:QUOTED]!r}, which is no whole number",
            f"one of the {field.name} has no whole number as its answer_start",
        )
    if given < 0 or not context.startswith(text, given):
        raise UnusableError(f"{quoted} is not in its {field.of} at answer_start={given}", kind)
    return given


READERS: dict[Kind, Callable[[object, Field, Values], Any]] = {
    "text": _text,
    "label": _text,
    "number": _number,
    "words": _words,
    "characters": _characters,
    "tags": _tags,
    "answers": _answers,
}
"""(cell, field, the values of the fields before it) -> value."""
