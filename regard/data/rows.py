"""Rows of named fields: what a task reads, each with the file and the line it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["text", "label", "number", "words", "characters", "tags", "answers"]


@dataclass(frozen=True)
class Field:
    """A field that a task declares: its name is the key of `data` that names its column.

    kind      value in a row           in a file
    text      str                      a text
    label     str                      a text or a number
    number    float                    a finite number
    words     tuple of str             a list, or a text with spaces between the words
    characters  the same               a list, or a text each of whose characters is one
    tags      tuple of str             the same, with as many tags as there are words in `of`
    answers   tuple of AnswerSpan      SQuAD's {text, answer_start}, or a text that is in `of`
    """

    name: str
    kind: Kind = "text"
    of: str = ""
    """The field that tags or answers belong to, which is declared before them."""

    @property
    def plural(self) -> bool:
        """Whether its value is a sequence."""
        return self.kind in ("words", "characters", "tags", "answers")


@dataclass(frozen=True)
class AnswerSpan:
    """An answer to a question: context[start : start + len(text)] == text."""

    text: str
    start: int


@dataclass(frozen=True)
class Row:
    """The fields of one line, by name."""

    file: Path
    """The file; of parallel text, that of the first field; or the name of a generator."""
    line: int
    values: Mapping[str, Any]
    """In the order in which the task declares its fields."""
    place: str = ""
    """Where it is in its file, if lines do not say it."""
    line_per_word: bool = False
    """Whether each of its words has a line of its own; `line` is that of the first."""

    def line_of(self, word: int) -> int:
        """The line in which a word stands, counted from 0."""
        return self.line + word if self.line_per_word else self.line

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def source(self) -> Any:
        """The first field: the input."""
        return next(iter(self.values.values()))

    @property
    def target(self) -> Any:
        """The second field: the expected output."""
        return tuple(self.values.values())[1]


SKIP = "Fix the line, or pass --on-bad-line skip to leave such lines out; they are counted."
"""What a person can do about most lines that cannot be used."""


@dataclass(frozen=True)
class Fault:
    """A line that cannot be used, and why."""

    file: Path
    line: int
    reason: str
    kind: str = ""
    """The reason without its numbers, under which it is counted, if that is different."""
    otherwise: Literal["", "error", "skip"] = ""
    """What becomes of the line, if that is not for data.on_bad_line to say."""
    remedy: str = SKIP
    """What a person can do."""
    place: str = ""
    """Where it is in its file, if lines do not say it."""

    def where(self, file: object) -> str:
        """The place in its file, which is called so."""
        return f"{file}, {self.place}" if self.place else f"{file}:{self.line}"


Record = Row | Fault


@dataclass(frozen=True)
class Layout:
    """The fields that rows should have, and the columns in which a file has them."""

    fields: tuple[Field, ...]
    columns: tuple[str, ...]
    """The name or number (from 1) of each field's column; empty where none was given."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def by_number(self) -> bool:
        """Whether every column is given by its number."""
        return all(column.isdecimal() for column in self.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """The name of each field's column: its own name where no other is given."""
        pairs = zip(self.columns, self.names, strict=True)
        return tuple(column or name for column, name in pairs)
