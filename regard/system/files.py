"""Files that are either whole or not there: written aside, flushed to disk, then renamed."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any

from regard.system.errors import UserError


@contextlib.contextmanager
def saying_what_failed(path: Path, *, remedy: str = "") -> Iterator[None]:
    """Turn an error of the disk into a sentence; remedy: what to do, if not simply to try again."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        full = error.errno in (ENOSPC, EFBIG, EDQUOT)
        again = (
            f"What was saved before is untouched; {'make room and ' if full else ''}try again "
            f"(a training goes on with --resume)."
        )
        raise UserError(f"{path} could not be written: {reason}. {remedy or again}") from error


@contextlib.contextmanager
def writing(path: Path, *, remedy: str = "") -> Iterator[Path]:
    """A path beside this one to write a file or folder at; it takes the name once it is whole.

    Whatever fails in between (a full disk above all) leaves what stood here before as it was.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with saying_what_failed(path, remedy=remedy):
            yield aside
            for part in sorted(aside.rglob("*")) if aside.is_dir() else []:
                _flush(part)
            _flush(aside)
            os.replace(aside, path)
            _flush(path.parent)
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    with writing(path) as aside:
        aside.write_text(text, encoding="utf-8")


def append_line(path: Path, line: str) -> None:
    """One more line at the end of a text file."""
    with saying_what_failed(path), path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
