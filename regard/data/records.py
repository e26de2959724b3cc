"""Pairs of texts out of files: parallel text, TSV, CSV, JSON lines, Parquet, dataset folders.

A pair is given with the line that it stands in, or a fault with its file, its line and a reason:
whoever reads decides whether a fault ends the reading or is counted. Files are read as a stream.
"""

import contextlib
import csv
import gzip
import itertools
import json
import statistics
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.system.errors import UserError
from regard.system.optional import needed

COMPRESSED = ".gz"
LOOKED_AT = 100
"""Lines of a table by which its width is known."""

Cells = list[str] | str
"""What a line of a table holds, or the reason why nothing can be read from it."""

Columns = tuple[str, str]
"""The names or numbers (from 1) of the two columns; empty where none was given."""


@dataclass(frozen=True)
class Fault:
    """A line that cannot be used, and why."""

    file: Path
    line: int
    reason: str
    kind: str = ""
    """The reason without its numbers, to be counted under, where it has any."""


@dataclass(frozen=True)
class Row:
    """The two texts of one line."""

    line: int
    source: str
    target: str


Record = Row | Fault


@dataclass(frozen=True)
class Files:
    """The one file of a table, or the two of parallel text."""

    paths: tuple[Path, ...]
    columns: Columns
    names: Columns
    """What the sides are called, and the columns too where a format must have names."""

    def records(self) -> Iterator[Record]:
        """Every line, in order."""
        if len(self.paths) == 2:
            return _parallel(*self.paths, self.names)
        (path,) = self.paths
        return FORMATS.get(_suffix(path), _tab_separated)(path, self.columns, self.names)


def find_files(path: Path, columns: Columns, names: Columns) -> Files | None:
    """The files that a path means: itself, compressed or not, or path.SOURCE and path.TARGET."""
    if not path.name:
        return None  # a folder's own, such as "."
    whole = _there(path)
    if all(columns) and (whole is None or whole.is_dir()):
        sides = [_there(path.with_name(f"{path.name}.{column}")) for column in columns]
        if sides[0] is not None and sides[1] is not None:
            return Files((sides[0], sides[1]), columns, names)
    return None if whole is None else Files((whole,), columns, names)


def _there(path: Path) -> Path | None:
    compressed = path.with_name(path.name + COMPRESSED)
    return next((one for one in (path, compressed) if one.exists()), None)


def _suffix(path: Path) -> str:
    """What the format is known by; a folder's is "/"."""
    if path.is_dir():
        return "/"
    return path.with_suffix("").suffix if path.suffix == COMPRESSED else path.suffix


def numbered_lines(file: Iterable[bytes], *, first: int = 0) -> Iterator[tuple[int, str]]:
    """The lines of a stream with their numbers; what is not UTF-8 is marked (see `broken`).

    Only a line feed ends a line, so that none is gained or lost. first: lines that went before.
    """
    for number, raw in enumerate(file, start=first + 1):
        text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        line = text.removesuffix(b"\n").removesuffix(b"\r")
        yield number, line.decode("utf-8", errors="surrogateescape")


def text_lines(file: Iterable[bytes], *, name: str, first: int = 0) -> Iterator[str]:
    """The lines of a stream that must all be UTF-8."""
    for number, line in numbered_lines(file, first=first):
        if broken(line):
            raise UserError(f"{name}:{number}: not UTF-8 text; save the file as UTF-8.")
        yield line


def read_text(path: Path) -> Iterator[str]:
    """The lines of a file that must all be UTF-8."""
    with _reading(path) as file:
        yield from text_lines(file, name=str(path))


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers; what is not UTF-8 is marked."""
    with _reading(path) as file:
        yield from numbered_lines(file)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Iterable[bytes]]:
    """A file to read, compressed or not, or a sentence on why it cannot be."""
    try:
        with gzip.open(path) if path.suffix == COMPRESSED else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"{path} cannot be read: {reason}.") from None


def count_lines(path: Path) -> int:
    """How many lines a text file has, whatever is in them."""
    with _reading(path) as file:
        return sum(1 for _ in file)


def broken(text: str) -> bool:
    """Whether a text holds bytes that are not UTF-8, or half of a character, as JSON may."""
    return not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text)


def _parallel(source: Path, target: Path, names: Columns) -> Iterator[Record]:
    """Line n of one file beside line n of the other."""
    sides = itertools.zip_longest(read_lines(source), read_lines(target))
    for number, (one, other) in enumerate(sides, start=1):
        if one is None or other is None:
            longer, shorter = (source, target) if other is None else (target, source)
            raise UserError(
                f"{longer}:{number}: this line has no partner, for {shorter} ends after "
                f"{number - 1:,} lines. Nothing tells which line is missing: make both files of "
                f"equal length."
            )
        yield next(
            (
                Fault(path, number, fault)
                for path, (_, text), name in zip((source, target), (one, other), names, strict=True)
                if (fault := "a tab stands in it" if "\t" in text else _fault(text, name))
            ),
            Row(number, one[1], other[1]),
        )


def _fault(text: str, name: str) -> str | None:
    if broken(text):
        return "not UTF-8 text"
    return f"the {name} is empty" if not text or text.isspace() else None


def _tab_separated(path: Path, columns: Columns, names: Columns) -> Iterator[Record]:
    rows = ((number, line.split("\t")) for number, line in read_lines(path))
    return _table(path, rows, columns, names, "tab")


def _comma_separated(path: Path, columns: Columns, names: Columns) -> Iterator[Record]:
    reader = csv.reader((line + "\n" for _, line in read_lines(path)), strict=True)

    def rows() -> Iterator[tuple[int, Cells]]:
        last = 0
        while True:
            begun = last + 1  # a quoted field may go on over lines
            try:
                yield begun, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if reader.line_num > begun or "end of data" in str(error):
                    raise UserError(
                        f"{path}:{begun}: a quote is opened here, and not closed by line "
                        f"{reader.line_num:,}. Close it, or leave it out; a quote within quotes is "
                        f"written twice."
                    ) from None
                lone = "expected after" in str(error)
                reason = str(error).partition(" - ")[0]  # what follows is for programmers
                yield begun, "a quote within quotes is not written twice" if lone else reason
            last = reader.line_num

    return _table(path, rows(), columns, names, "comma")


def _table(
    path: Path,
    rows: Iterator[tuple[int, Cells]],
    columns: Columns,
    names: Columns,
    separator: str,
) -> Iterator[Record]:
    """Rows of one width. Columns by number: there is no header; by name: the first line is one."""
    places, width = (0, 1), 2
    if any(columns):
        first = list(itertools.islice(rows, LOOKED_AT))
        if not first:
            return
        by_number = all(column.isdecimal() for column in columns)
        header = first[0][1]
        if by_number:  # any line may be the faulty one: the width is what most have
            widths = [len(row) for _, row in first if not isinstance(row, str)]
            if not widths:
                raise UserError(f"{path}:1: {header}, and so it goes on.")
            enough = [one for one in widths if one >= max(map(int, columns))]
            header = [""] * statistics.mode(enough or widths)
        elif _suffix(path) in {f".{column}" for column in columns}:
            raise UserError(
                f"{path} is one side of parallel text: name it without its end, {_suffix(path)}, "
                f"and both sides are found."
            )
        if isinstance(header, str):
            raise UserError(f"{path}:1: {header}; it should name the columns.")
        width = len(header)
        rows = itertools.chain(first if by_number else first[1:], rows)
        places = (
            _place(columns[0], header, path, by_number=by_number, key=names[0]),
            _place(columns[1], header, path, by_number=by_number, key=names[1]),
        )
    for number, row in rows:
        if isinstance(row, str):
            yield Fault(path, number, row)
        elif len(row) != width:
            count = f"{len(row)} column{'s' if len(row) != 1 else ''}"
            expected = f": {', '.join(names)}" if width == 2 else ""
            yield Fault(
                path,
                number,
                f"{count} where {width} are expected ({separator}-separated{expected})",
            )
        else:
            yield _row(path, number, (row[places[0]], row[places[1]]), names)


def _place(column: str, header: Sequence[str], path: Path, *, by_number: bool, key: str) -> int:
    """Where a column stands."""
    if by_number and 1 <= int(column) <= len(header):
        return int(column) - 1
    if not by_number and column in header:
        return header.index(column)
    there = f"{len(header)} columns" if by_number else f"{', '.join(header)[:200]} (its first line)"
    raise UserError(f"{path} has no column data.{key}={column!r}; it has {there}.")


def _row(path: Path, number: int, texts: tuple[str, str], names: Columns) -> Record:
    """The texts, if neither is at fault."""
    for text, name in zip(texts, names, strict=True):
        fault = _fault(text, name)
        if fault:
            return Fault(path, number, fault)
    return Row(number, *texts)


def _json_lines(path: Path, columns: Columns, names: Columns) -> Iterator[Record]:
    keys = _keys(columns, names)
    for number, line in read_lines(path):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # nested too deep for anyone to read
            yield Fault(path, number, "not UTF-8 text" if broken(line) else "not JSON")
            continue
        yield _from_mapping(path, number, found, keys, names)


def _keys(columns: Columns, names: Columns, there: Sequence[str] = ()) -> Columns:
    """A format that names its columns has those that were asked for, or source and target.

    there: the columns in their order, where they have one, to be asked for by number.
    """
    first, second = (
        there[int(column) - 1]
        if column.isdecimal() and column not in there and 1 <= int(column) <= len(there)
        else column or name
        for column, name in zip(columns, names, strict=True)
    )
    return first, second


def _under(found: dict[str, object], key: str) -> object:
    """What stands under a key, or under translation.en within it, as in many a dataset."""
    if key in found:
        return found[key]
    outer, dot, inner = key.partition(".")
    within = found.get(outer)
    return _under(within, inner) if dot and isinstance(within, dict) else None


def _from_mapping(path: Path, number: int, found: object, keys: Columns, names: Columns) -> Record:
    if not isinstance(found, dict):
        return Fault(path, number, "not an object with keys and values")
    texts = []
    for key in keys:
        value = _under(found, key)
        if value is None or isinstance(value, dict | list):
            return Fault(path, number, f"no text under {key!r}")
        if isinstance(value, bytes):
            value = value.decode(errors="surrogateescape")
        texts.append(str(value))  # a class may be named by a number
    return _row(path, number, (texts[0], texts[1]), names)


def _parquet(path: Path, columns: Columns, names: Columns) -> Iterator[Record]:
    parquet = needed("pyarrow.parquet", extra="data", what=f"Reading {path}")
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise UserError(f"{path} is not a Parquet file: {str(error).rstrip('.')}.") from None
    keys = _keys(columns, names, file.schema_arrow.names)
    _check_keys(path, keys, file.schema_arrow.names, names)
    rows = (
        row for batch in file.iter_batches(columns=list(set(keys))) for row in batch.to_pylist()
    )
    yield from _from_mappings(path, rows, keys, names)


def _dataset(path: Path, columns: Columns, names: Columns) -> Iterator[Record]:
    """A folder that `datasets` saved."""
    datasets = needed("datasets", extra="data", what=f"Reading {path}")
    try:
        found = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a folder of a dataset: {str(error).rstrip('.')}.") from None
    if isinstance(found, dict):
        raise UserError(
            f"{path} holds several sets, {', '.join(found)}; name one, as in "
            f"{path.name}/{next(iter(found))}."
        )
    keys = _keys(columns, names, found.column_names)
    _check_keys(path, keys, found.column_names, names)
    yield from _from_mappings(path, found, keys, names)


def _from_mappings(
    path: Path, rows: Iterable[object], keys: Columns, names: Columns
) -> Iterator[Record]:
    """The rows that a library reads, as long as it can."""
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            yield _from_mapping(path, number, row, keys, names)
    except (OSError, ValueError, SystemError) as error:  # the last, where lengths are nonsense
        raise UserError(
            f"{path} is damaged after row {number:,}: {str(error).rstrip('.')}."
        ) from None


def _check_keys(path: Path, keys: Columns, there: Sequence[str], names: Columns) -> None:
    for key, name in zip(keys, names, strict=True):
        if key not in there and key.partition(".")[0] not in there:
            raise UserError(f"{path} has no column data.{name}={key}; it has {', '.join(there)}.")


FORMATS: dict[str, Callable[[Path, Columns, Columns], Iterator[Record]]] = {
    ".csv": _comma_separated,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
    "/": _dataset,
}
"""By the end of a file's name; whatever else is tab-separated."""
