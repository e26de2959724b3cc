"""Rows out of files: which files a path means, and which reader each format has.

A row comes with its file and its line, or there is a fault with file, line and reason: the caller
decides whether a fault ends the reading or is counted. Files are read as a stream.
"""

import errno
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.cells import make_row
from regard.data.class_folders import class_folders, has_class_folders
from regard.data.columns import columns
from regard.data.lines import COMPRESSED, ending, read_lines
from regard.data.mappings import dataset_folder, json_lines, parquet
from regard.data.rows import Fault, Layout, Record
from regard.data.squad import squad
from regard.data.tables import comma_separated, tab_separated
from regard.system.errors import UserError

FOLDER = "/"

FORMATS: dict[str, Callable[[Path, Layout], Iterator[Record]]] = {
    ".csv": comma_separated,
    ".jsonl": json_lines,
    ".parquet": parquet,
    FOLDER: dataset_folder,
}
"""Readers by the end of a file's name; any other file is tab-separated, unless its fields have a
format of their own."""


def reader_of(format: str, layout: Layout) -> Callable[[Path, Layout], Iterator[Record]]:
    """What reads files of a format: words with tags stand in columns, where no end says else."""
    tagged = any(field.kind == "tags" for field in layout.fields)
    asked = any(field.kind == "answers" for field in layout.fields)
    if asked and format == ".json":
        return squad
    others = columns if tagged and format != ".tsv" else tab_separated
    return FORMATS.get(format, others)


@dataclass(frozen=True)
class Files:
    """One file with all fields, or parallel text: one file per field."""

    paths: tuple[Path, ...]
    layout: Layout
    parallel: bool = False

    def records(self) -> Iterator[Record]:
        """Every line, in order."""
        if self.parallel:
            return _parallel(self.paths, self.layout)
        (path,) = self.paths
        if has_class_folders(path):
            return class_folders(path, self.layout)
        format = FOLDER if path.is_dir() else ending(path)
        return reader_of(format, self.layout)(path, self.layout)

    def place(self, number: int) -> Path:
        """The file that holds this field, counted from 0."""
        return self.paths[number if self.parallel else 0]


def find_files(path: Path, layout: Layout) -> Files | None:
    """The files that a path means: itself, compressed or not, or path.A, path.B, … by column."""
    if not path.name:
        return None  # a folder's own, such as "."
    whole = _existing(path)
    if all(layout.columns) and (whole is None or whole.is_dir()):
        sides = [_existing(path, f".{column}") for column in layout.columns]
        existing = tuple(side for side in sides if side is not None)
        if len(existing) == len(sides):
            return Files(existing, layout, parallel=True)
    return None if whole is None else Files((whole,), layout)


def _existing(path: Path, suffix: str = "") -> Path | None:
    """The path with this suffix, compressed or not, if it is there."""
    try:
        paths = [path.with_name(path.name + suffix + last) for last in ("", *COMPRESSED)]
        return next((candidate for candidate in paths if candidate.exists()), None)
    except ValueError:  # no suffix of a file: one with "/" in it
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None


def _parallel(paths: Sequence[Path], layout: Layout) -> Iterator[Record]:
    """Line n of each file side by side."""
    fields, keys = layout.fields, layout.keys
    files = itertools.zip_longest(*map(read_lines, paths))
    for number, lines in enumerate(files, start=1):
        if None in lines:
            shorter = paths[lines.index(None)]
            longer = next(path for path, line in zip(paths, lines, strict=True) if line is not None)
            raise UserError(
                f"{longer}:{number}: this line has no counterpart: {shorter} ends after "
                f"{number - 1:,} lines. Any line may be the missing one: give "
                f"{'both' if len(paths) == 2 else 'all'} files the same lines."
            )
        texts = [text for _, text in lines]
        tab = next((file for file, text in enumerate(texts) if "\t" in text), None)
        if tab is not None:
            yield Fault(paths[tab], number, f"there is a tab in the {fields[tab].name}")
        else:
            yield make_row(paths, number, texts, fields=fields, keys=keys)
