"""Texts in a folder per class, as in IMDB: pos/1.txt, neg/1.txt; the folder's name is the class."""

from collections.abc import Iterator
from pathlib import Path

from regard.data.cells import make_row
from regard.data.lines import ending, read_lines
from regard.data.rows import Fault, Layout, Record
from regard.system.errors import UserError

TEXT = ".txt"
WITHOUT_CLASS = "unsup"
"""The folder in which IMDB has texts without a class."""


def has_class_folders(path: Path) -> bool:
    """Whether there are folders with texts in it."""
    return path.is_dir() and any(
        ending(file) == TEXT for folder in _folders(path) for file in folder.iterdir()
    )


def class_folders(path: Path, layout: Layout) -> Iterator[Record]:
    """A row per file, class by class; line 1 stands for all of it."""
    kinds = [field.kind for field in layout.fields]
    if sorted(kinds) != ["label", "text"]:
        raise UserError(
            f"{path} is a folder of texts by class, and this task reads "
            f"{', '.join(layout.names)}: name a file."
        )
    for folder in _folders(path):
        for file in sorted(folder.iterdir()):
            if ending(file) != TEXT:
                continue
            if folder.name == WITHOUT_CLASS:
                reason = f"the text is in {WITHOUT_CLASS}, where IMDB has texts without a class"
                yield Fault(file, 1, reason, otherwise="skip")
                continue
            text = "\n".join(line for _, line in read_lines(file))
            cells = [folder.name if kind == "label" else text for kind in kinds]
            yield make_row([file] * 2, 1, cells, fields=layout.fields, keys=layout.keys)


def _folders(path: Path) -> list[Path]:
    return sorted(
        folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")
    )
