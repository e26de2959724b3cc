"""Files that are either whole or not there: written aside, flushed to disk, then renamed."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.system.errors import UserError

AGAIN = "What was saved before is untouched; {}try again (a training goes on with --resume)."
MAKE_ROOM = AGAIN.format("make room and ")
MAY_NOT = "Choose another place, or change who may write there."

REMEDIES = {
    errno.ENOSPC: MAKE_ROOM,
    errno.EFBIG: MAKE_ROOM,
    errno.EDQUOT: MAKE_ROOM,
    errno.EROFS: "Choose a place on a disk that can be written.",
    errno.EACCES: MAY_NOT,
    errno.EPERM: MAY_NOT,
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ENOENT: "The folder that it belongs to is gone: put it back, or choose another place.",
}
"""What to do, by the number of the error; otherwise, to try again."""


@contextlib.contextmanager
def saying_what_failed(path: Path, *, remedy: str = "") -> Iterator[None]:
    """Turn an error in writing into a sentence; remedy: what to do, if it depends on the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        advice = remedy or REMEDIES.get(error.errno or 0, AGAIN.format(""))
        raise UserError(f"{path} could not be written: {reason}. {advice}") from error


@contextlib.contextmanager
def saying_why_unreadable(path: Path, *, remedy: str = "") -> Iterator[None]:
    """Turn an error in reading, such as a missing permission, into a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{path} cannot be read: {reason}.{remedy and f' {remedy}'}") from error


def aside_of(path: Path) -> Path:
    """Where this thread writes what is to become `path`: hidden, beside it."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")


@contextlib.contextmanager
def writing(path: Path, *, remedy: str = "") -> Iterator[Path]:
    """A path beside this one to write a file or folder at; it takes the name once it is whole.

    Whatever fails in between (a full disk above all) leaves what stood here before as it was. What
    a process that is gone has left of the same is removed.
    """
    aside = aside_of(path)
    _remove_abandoned(path)
    remove(aside)  # of an earlier process with the same number
    try:
        with saying_what_failed(path, remedy=remedy):
            yield aside
            for part in sorted(aside.rglob("*")) if aside.is_dir() else []:
                _flush(part)
            _flush(aside)
            os.replace(aside, path)
            _flush(path.parent)
    finally:
        remove(aside)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that are gone were writing to become `path`."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+)\.\d+\.part")
    with contextlib.suppress(OSError):  # whatever is wrong with the folder, writing says it
        for beside in list(path.parent.iterdir()):
            match = pattern.fullmatch(beside.name)
            if match and _is_gone(int(match[1])):
                remove(beside)


def _is_gone(process: int) -> bool:
    """Whether no process has this number; one that may not be asked about is alive."""
    if os.name != "posix":  # where asking would end it
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it, as far as possible, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def remove_whole(folder: Path) -> None:
    """Remove a folder so that a kill in between never leaves a part of it under its name."""
    aside = aside_of(folder)
    with contextlib.suppress(OSError):
        os.rename(folder, aside)
        remove(aside)


LEFTOVER = re.compile(r"\..*\.part|\.tmp\w{6}")
"""The name of what `writing`, or the safetensors library within it, had not finished."""


def remove_leftovers(folder: Path) -> None:
    """Remove what was being written in a folder that no other process writes to."""
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if LEFTOVER.fullmatch(path.name):
            remove(path)


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
