"""Tables of text, tab- or comma-separated: one row per line, all of one width."""

import csv
import itertools
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.cells import make_row
from regard.data.lines import ending, read_lines, why_unreadable
from regard.data.rows import Fault, Layout, Record
from regard.system.errors import UserError

LINES_FOR_WIDTH = 100
"""How many lines are read to find out how many columns a table has."""

Line = tuple[int, list[str] | str]
"""The number of a line, and its cells, or the reason why it cannot be read."""


def tab_separated(path: Path, layout: Layout) -> Iterator[Record]:
    lines = ((number, line.split("\t")) for number, line in read_lines(path))
    return _rows(path, lines, layout, separator="tab")


def comma_separated(path: Path, layout: Layout) -> Iterator[Record]:
    return _rows(path, _csv_lines(path), layout, separator="comma")


def _csv_lines(path: Path) -> Iterator[Line]:
    """The records of a CSV file, each with the line that it begins in."""
    reader = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)
    last = 0
    while True:
        begin = last + 1  # a quoted field may go on over lines
        try:
            yield begin, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if reader.line_num > begin or "end of data" in str(error):
                raise UserError(
                    f"{path}:{begin}: a quote is opened here and not closed by line "
                    f"{reader.line_num:,}. Close it, or remove it; a quote within quotes is "
                    f"written twice."
                ) from None
            not_doubled = "expected after" in str(error)
            reason = str(error).partition(" - ")[0]  # what follows is for programmers
            yield begin, "a quote within quotes is not written twice" if not_doubled else reason
        last = reader.line_num


def _rows(path: Path, lines: Iterator[Line], layout: Layout, *, separator: str) -> Iterator[Record]:
    """Rows of one width. Without columns given, a table has the fields in their order alone.

    Columns by number: there is no header. By name: the first line is the header.
    """
    fields, keys = layout.fields, layout.keys
    places, width = list(range(len(fields))), len(fields)
    if any(layout.columns):
        first = list(itertools.islice(lines, LINES_FOR_WIDTH))
        if not first:
            return
        header = (
            _no_header(path, first, layout) if layout.by_number else _header(path, first, layout)
        )
        lines = itertools.chain(first if layout.by_number else first[1:], lines)
        places, width = _places(path, header, layout), len(header)
    files = [path] * len(fields)
    for number, cells in lines:
        if isinstance(cells, str):
            yield Fault(path, number, cells)
        elif len(cells) != width:
            yield Fault(path, number, *_wrong_width(len(cells), width, places, layout, separator))
        else:
            row = [cells[place] for place in places]
            yield make_row(files, number, row, fields=fields, keys=keys)


def _no_header(path: Path, lines: Sequence[Line], layout: Layout) -> list[str]:
    """As many nameless columns as most lines have: any line may be the faulty one."""
    widths = [len(cells) for _, cells in lines if not isinstance(cells, str)]
    if not widths:
        last = lines[-1][0]
        others = f", and no line up to line {last:,} can be read either" if last > 1 else ""
        raise UserError(f"{path}:1: {lines[0][1]}{others}.")
    wide_enough = [width for width in widths if width >= max(map(int, layout.columns))]
    return [""] * statistics.mode(wide_enough or widths)


def _header(path: Path, lines: Sequence[Line], layout: Layout) -> list[str]:
    """The names in the first line."""
    side = ending(path)
    if side in {f".{column}" for column in layout.columns if column}:
        raise UserError(
            f"{path} is one file of parallel text: name it without its ending, {side}, and all of "
            f"its files are found."
        )
    header = lines[0][1]
    if isinstance(header, str):
        raise UserError(f"{path}:1: {header}; this line should name the columns.")
    return header


def _places(path: Path, header: Sequence[str], layout: Layout) -> list[int]:
    """Where each field's column stands."""
    places = []
    for field, column in zip(layout.fields, layout.keys, strict=True):
        if layout.by_number and 1 <= int(column) <= len(header):
            places.append(int(column) - 1)
        elif not layout.by_number and column in header:
            places.append(header.index(column))
        else:
            fault = next(filter(None, map(why_unreadable, header)), None)
            if fault is not None:  # the name may be there, in another encoding
                raise UserError(f"{path}:1: {fault}; save the file as UTF-8.")
            columns = (
                f"{len(header)} column{'s' if len(header) > 1 else ''}"
                if layout.by_number
                else f"{', '.join(header)[:200]} (its first line)"
            )
            raise UserError(f"{path} has no column data.{field.name}={column!r}; it has {columns}.")
    return places


def _wrong_width(
    count: int, width: int, places: Sequence[int], layout: Layout, separator: str
) -> tuple[str, str]:
    """Why a line with so many columns cannot be used, and the same as a clause to be counted."""
    columns = f"{count} column{'s' if count != 1 else ''}"
    names = [name for _, name in sorted(zip(places, layout.names, strict=True))]
    listed = f": {', '.join(names)}" if len(names) == width else ""
    format = f"({separator}-separated{listed})"
    return (
        f"{columns} where {width} {'are' if width != 1 else 'is'} expected {format}",
        f"there {'are' if count != 1 else 'is'} {columns}, not {width} {format}",
    )
