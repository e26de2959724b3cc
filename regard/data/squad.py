"""Questions on texts in the form of SQuAD: articles, paragraphs, questions (Rajpurkar et al. 2016).

    {"data": [{"paragraphs": [{"context": …, "qas": [{"id": …, "question": …, "answers": [
        {"text": …, "answer_start": …}]}]}]}]}

SQuAD 2.0 has questions without an answer as well: `is_impossible`, and no answers.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.cells import make_row
from regard.data.lines import read_text
from regard.data.rows import Fault, Layout, Record
from regard.system.errors import UserError


def squad(path: Path, layout: Layout) -> Iterator[Record]:
    """A row per question; its number in the file stands for a line, beside its id."""
    renamed = next((n for n, c in zip(layout.names, layout.columns, strict=True) if c), None)
    if renamed is not None:
        column = layout.columns[layout.names.index(renamed)]
        raise UserError(
            f"{path}: SQuAD's form has its own names, and data.{renamed}={column!r} is another: "
            f"leave it out."
        )
    number = 0
    for context, question in _questions(path, _read(path)):
        number += 1
        if not isinstance(question, dict):
            yield Fault(path, number, f"question {number:,} is no object with keys and values")
            continue
        cells = [_cell(name, context, question) for name in layout.names]
        files = [path] * len(cells)
        row = make_row(files, number, cells, fields=layout.fields, keys=layout.names)
        place = f"question {str(question.get('id', number))[:60]!r}"
        if isinstance(row, Fault):
            yield Fault(path, number, row.reason, row.kind, place=place)
        else:
            yield type(row)(path, number, row.values, place=place)


def _read(path: Path) -> Any:
    """The whole file: JSON cannot be read line by line."""
    try:
        return json.loads("\n".join(read_text(path)))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise UserError(f"{path}:{line}: this is not JSON, as SQuAD's files are.") from None


def _questions(path: Path, content: Any) -> Iterator[tuple[object, Any]]:
    """Every question with its context."""
    for article in _list(path, content, "data"):
        for paragraph in _list(path, article, "paragraphs"):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for question in _list(path, paragraph, "qas"):
                yield context, question


def _list(path: Path, outer: Any, key: str) -> list[Any]:
    inner = outer.get(key) if isinstance(outer, dict) else None
    if not isinstance(inner, list):
        raise UserError(
            f"{path}: there is no list {key!r} where SQuAD's files have one: "
            f'{{"data": [{{"paragraphs": [{{"context": …, "qas": […]}}]}}]}}.'
        )
    return inner


def _cell(name: str, context: object, question: dict[str, Any]) -> object:
    if name == "context":
        return context
    if name == "answers" and question.get("is_impossible") is True:
        return []
    return question.get(name)
