"""Columns, as in the files of CoNLL: a word and its tags per line, a blank line after a sentence.

-DOCSTART- -X- -X- O

Paul NNP I-NP I-PER
slept VBD I-VP O
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.cells import make_row
from regard.data.lines import read_lines, why_unreadable
from regard.data.rows import Fault, Layout, Record
from regard.data.tables import LINES_FOR_WIDTH
from regard.system.errors import UserError

DOCUMENT = "-DOCSTART-"
"""The word of a line that opens a document, and is no part of a sentence."""

Line = tuple[int, list[str]]
"""The number of a line and its cells."""


def columns(path: Path, layout: Layout) -> Iterator[Record]:
    """A row per sentence. Without columns given, the word is the first and its tag the last."""
    lines: Iterator[Line] = ((number, _cells(line)) for number, line in read_lines(path))
    first = list(itertools.islice(lines, LINES_FOR_WIDTH))
    places, width, headed = _places(path, first, layout)
    lines = itertools.chain(first, lines)
    if headed:
        next(line for line in lines if line[1])
    files, keys = [path] * len(places), [column or "last" for column in layout.keys]
    for sentence in _sentences(lines):
        fault = next(filter(None, (_fault(path, line, width) for line in sentence)), None)
        if fault is not None:
            yield fault
            continue
        cells = [[line[place] for _, line in sentence] for place in places]
        row = make_row(files, sentence[0][0], cells, fields=layout.fields, keys=keys)
        yield row if isinstance(row, Fault) else replace(row, line_per_word=True)


def _cells(line: str) -> list[str]:
    """What is between tabs or, without any, between spaces; nothing if the line is blank."""
    if not line.strip():
        return []
    return line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


def _sentences(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Lines up to a blank one, without those that open a document."""
    for blank, group in itertools.groupby(lines, key=lambda line: not line[1]):
        sentence = [] if blank else [line for line in group if line[1][0] != DOCUMENT]
        if sentence:
            yield sentence


def _fault(path: Path, line: Line, width: int) -> Fault | None:
    number, cells = line
    reason = next(filter(None, map(why_unreadable, cells)), None)
    if reason is not None:
        return Fault(path, number, reason, f"a line is {reason}")
    if len(cells) != width:
        count = f"{len(cells)} column{'s' if len(cells) != 1 else ''}"
        return Fault(
            path,
            number,
            f"{count} where {width} are expected (a word and its tags; a blank line ends a "
            f"sentence)",
            f"a line has not {width} columns",
        )
    return None


def _places(path: Path, lines: Sequence[Line], layout: Layout) -> tuple[list[int], int, bool]:
    """Where each field's column stands, how many there are, and whether the first line names them.

    Any line may be the faulty one: there are as many columns as most of the first lines have.
    """
    rows = [cells for _, cells in lines if cells and cells[0] != DOCUMENT]
    if not rows:
        return [0] * len(layout.fields), 0, False
    width = statistics.mode(len(cells) for cells in rows)
    named = any(column and not column.isdecimal() for column in layout.columns)
    header = rows[0] if named else []
    places = []
    for number, (field, column) in enumerate(zip(layout.fields, layout.columns, strict=True)):
        if not column:
            places.append(0 if number == 0 else width - 1)
        elif column.isdecimal() and 1 <= int(column) <= width:
            places.append(int(column) - 1)
        elif column in header:
            places.append(header.index(column))
        else:
            has = f"{' '.join(header)[:200]} (its first line)" if named else f"{width} columns"
            raise UserError(f"{path} has no column data.{field.name}={column!r}; it has {has}.")
    if len(set(places)) < len(places):
        raise UserError(
            f"{path} has {width} column{'s' if width > 1 else ''}: words and tags cannot be the "
            f"same one. Name theirs with data.words and data.tags, as in -s data.tags=4."
        )
    return places, width, named
