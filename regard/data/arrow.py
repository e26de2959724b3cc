"""Arrow data, read so that damage is a sentence and never a crash: dataset folders and Parquet.

Arrow trusts what it maps into memory, and ends the process where an offset is nonsense. So nothing
is mapped, and every batch is validated in full before a value is taken out of it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.system.errors import UserError
from regard.system.optional import needed

END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""The last bytes of a stream of record batches: without them it has been cut."""

DAMAGE = (
    *(OSError, ValueError, LookupError, TypeError, ArithmeticError, MemoryError),
    *(NotImplementedError, SystemError),
)
"""What Arrow raises for damaged data: lengths, types, offsets and dates that cannot be."""


@dataclass(frozen=True)
class ArrowTable:
    """The names of the columns of some Arrow data, and its rows as mappings."""

    path: Path
    columns: list[str]
    batches: Callable[[list[str]], Iterator[Any]]
    """Record batches that have these columns, and may have others."""

    def rows(self, columns: list[str]) -> Iterator[dict[str, Any]]:
        """Every row, with these columns alone."""
        number = 0
        batches = self.batches(columns)
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                batch = batch.select(columns)
                batch.validate(full=True)
                mappings = batch.to_pylist()
            except DAMAGE as error:
                raise _damaged(self.path, number, error) from None
            yield from mappings
            number += len(mappings)


def open_parquet(path: Path, held: ExitStack) -> ArrowTable:
    """A Parquet file; it stays open as long as `held`."""
    library = needed("pyarrow.parquet", extra="data", what=f"Reading {path}")
    try:
        file = library.ParquetFile(held.enter_context(path.open("rb")))
        columns = file.schema_arrow.names
    except DAMAGE as error:
        raise UserError(f"{path} is not a Parquet file: {_reason(error)}.") from None
    return ArrowTable(path, columns, lambda columns: _all_rows(file, columns))


def _all_rows(file: Any, columns: list[str]) -> Iterator[Any]:
    """The batches of a Parquet file, which says three times how many rows it has."""
    metadata, number = file.metadata, 0
    for batch in file.iter_batches(columns=columns):
        number += batch.num_rows
        yield batch
    groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if not number == sum(groups) == metadata.num_rows:
        raise ValueError(f"it should have {metadata.num_rows:,} rows, and has {number:,}")


def open_folder(path: Path, held: ExitStack) -> ArrowTable:
    """A folder that `datasets` saved; its files stay open as long as `held`."""
    library = needed("pyarrow", extra="data", what=f"Reading {path}")
    files = _data_files(path)
    try:
        readers = [_stream(library, file, held) for file in files]
    except DAMAGE as error:
        raise _damaged(path, 0, error) from None
    columns = readers[0][1].schema.names if readers else []
    return ArrowTable(path, columns, lambda columns: _batches(readers))


def _data_files(path: Path) -> list[Path]:
    """The files that hold the rows, as state.json lists them."""
    state, splits = path / "state.json", path / "dataset_dict.json"
    if not state.is_file():
        if splits.is_file():
            names = sorted(file.parent.name for file in path.glob("*/state.json")) or ["none"]
            raise UserError(
                f"{path} has several splits, {', '.join(names)}; name one, as in "
                f"{path.name}/{names[0]}."
            )
        raise UserError(f"{path} is not a folder of a dataset: there is no state.json in it.")
    try:
        content = json.loads(state.read_text(encoding="utf-8"))
        names = [entry["filename"] for entry in content["_data_files"]]
        if any(Path(name).name != name for name in names):
            raise ValueError("a file outside of the folder")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise UserError(f"{state} is damaged: it does not list the files of the dataset.") from None
    return [path / name for name in names]


def _stream(library: Any, path: Path, held: ExitStack) -> tuple[Any, Any]:
    """An open file and the reader of its batches."""
    file = held.enter_context(path.open("rb"))
    size = file.seek(0, 2)
    file.seek(max(0, size - len(END_OF_STREAM)))
    if file.read() != END_OF_STREAM:
        raise ValueError(f"the end of {path.name} is missing")
    file.seek(0)
    return file, library.ipc.open_stream(file)


def _batches(readers: list[tuple[Any, Any]]) -> Iterator[Any]:
    for file, reader in readers:
        yield from reader
        if file.read(1):  # a batch whose length reads 0 is taken for the end
            raise ValueError(f"{Path(file.name).name} goes on after its end")


def _damaged(path: Path, rows: int, error: BaseException) -> UserError:
    return UserError(f"{path} is damaged after row {rows:,}: {_reason(error)}.")


def _reason(error: BaseException) -> str:
    """What a library says, in one line."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
