"""Rows of keys and values: JSON lines, Parquet files and the folders that `datasets` saves."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.data.cells import make_row
from regard.data.lines import broken, read_lines
from regard.data.rows import Fault, Layout, Record
from regard.system.errors import UserError
from regard.system.optional import needed


def json_lines(path: Path, layout: Layout) -> Iterator[Record]:
    keys = layout.keys
    for number, line in read_lines(path):
        try:
            mapping = json.loads(line)
        except (ValueError, RecursionError):  # nested too deep for anyone to read
            yield Fault(path, number, "not UTF-8 text" if broken(line) else "not JSON")
            continue
        yield _row(path, number, mapping, layout, keys)


def parquet(path: Path, layout: Layout) -> Iterator[Record]:
    library = needed("pyarrow.parquet", extra="data", what=f"Reading {path}")
    try:
        file = library.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise UserError(f"{path} is not a Parquet file: {str(error).rstrip('.')}.") from None
    keys = _keys(path, layout, file.schema_arrow.names)
    batches = file.iter_batches(columns=list(set(keys)))
    rows = (row for batch in batches for row in batch.to_pylist())
    yield from _rows(path, rows, layout, keys)


def dataset_folder(path: Path, layout: Layout) -> Iterator[Record]:
    datasets = needed("datasets", extra="data", what=f"Reading {path}")
    try:
        dataset = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a folder of a dataset: {str(error).rstrip('.')}.") from None
    if isinstance(dataset, dict):
        raise UserError(
            f"{path} has several splits, {', '.join(dataset)}; name one, as in "
            f"{path.name}/{next(iter(dataset))}."
        )
    yield from _rows(path, dataset, layout, _keys(path, layout, dataset.column_names))


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


def _rows(
    path: Path, mappings: Iterable[object], layout: Layout, keys: Sequence[str]
) -> Iterator[Record]:
    """The rows that a library reads, as long as it can."""
    number = 0
    try:
        for number, mapping in enumerate(mappings, start=1):
            yield _row(path, number, mapping, layout, keys)
    except (OSError, ValueError, SystemError) as error:  # the last, where lengths are nonsense
        raise UserError(
            f"{path} is damaged after row {number:,}: {str(error).rstrip('.')}."
        ) from None


def _row(path: Path, number: int, mapping: object, layout: Layout, keys: Sequence[str]) -> Record:
    if not isinstance(mapping, dict):
        return Fault(path, number, "not an object with keys and values")
    cells = [_under(mapping, key) for key in keys]
    return make_row([path] * len(keys), number, cells, fields=layout.fields, keys=keys)


def _under(mapping: dict[str, object], key: str) -> object:
    """The value of a key, or of en within translation for translation.en, as in many datasets."""
    if key in mapping:
        return mapping[key]
    outer, dot, inner = key.partition(".")
    within = mapping.get(outer)
    return _under(within, inner) if dot and isinstance(within, dict) else None
