"""Rows of keys and values: JSON lines, Parquet files and the folders that `datasets` saves."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from regard.data.arrow import ArrowTable, open_folder, open_parquet
from regard.data.cells import make_row
from regard.data.lines import read_lines, why_unreadable
from regard.data.rows import Fault, Layout, Record
from regard.system.errors import UserError


def json_lines(path: Path, layout: Layout) -> Iterator[Record]:
    keys = layout.keys
    for number, line in read_lines(path):
        try:
            mapping = json.loads(line)
        except (ValueError, RecursionError):  # nested too deep for anyone to read
            reason = why_unreadable(line) or "not JSON"
            yield Fault(path, number, reason, f"the line is {reason}")
            continue
        yield _row(path, number, mapping, layout, keys)


def parquet(path: Path, layout: Layout) -> Iterator[Record]:
    yield from _arrow_rows(path, layout, open_parquet)


def dataset_folder(path: Path, layout: Layout) -> Iterator[Record]:
    yield from _arrow_rows(path, layout, open_folder)


def _arrow_rows(
    path: Path, layout: Layout, open: Callable[[Path, ExitStack], ArrowTable]
) -> Iterator[Record]:
    with ExitStack() as held:
        table = open(path, held)
        keys = _keys(path, layout, table.columns)
        columns = {key if key in table.columns else key.partition(".")[0] for key in keys}
        for number, mapping in enumerate(table.rows(sorted(columns)), start=1):
            yield _row(path, number, mapping, layout, keys)


def _keys(path: Path, layout: Layout, columns: Sequence[str]) -> list[str]:
    """The key of each field: by name, by number, or translation.en for a key within a column."""
    keys = []
    for field, key in zip(layout.fields, layout.keys, strict=True):
        numbered = key.isdecimal() and key not in columns and 1 <= int(key) <= len(columns)
        keys.append(columns[int(key) - 1] if numbered else key)
        if keys[-1] not in columns and keys[-1].partition(".")[0] not in columns:
            raise UserError(
                f"{path} has no column data.{field.name}={key}; it has {', '.join(columns)}."
            )
    return keys


def _row(path: Path, number: int, mapping: object, layout: Layout, keys: Sequence[str]) -> Record:
    if not isinstance(mapping, dict):
        reason = "not an object with keys and values"
        return Fault(path, number, reason, f"the line is {reason}")
    cells = [_under(mapping, key) for key in keys]
    return make_row([path] * len(keys), number, cells, fields=layout.fields, keys=keys)


def _under(mapping: dict[str, object], key: str) -> object:
    """The value of a key, or of en within translation for translation.en, as in many datasets."""
    if key in mapping:
        return mapping[key]
    outer, dot, inner = key.partition(".")
    within = mapping.get(outer)
    return _under(within, inner) if dot and isinstance(within, dict) else None
