"""The lines of text files: UTF-8, compressed or not, as a stream."""

import bz2
import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from regard.system.errors import UserError

COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
"""How a compressed file is opened, by the end of its name."""


def ending(path: Path) -> str:
    """The end of a file's name by which its format is known, whether it is compressed or not."""
    return path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix


def numbered_lines(file: Iterable[bytes], *, first: int = 0) -> Iterator[tuple[int, str]]:
    """The lines of a stream with their numbers; bytes that are not UTF-8 are marked (`broken`).

    Only a line feed ends a line, so that none is gained or lost. first: how many lines of the
    stream were read before.
    """
    for number, raw in enumerate(file, start=first + 1):
        text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        line = text.removesuffix(b"\n").removesuffix(b"\r")
        yield number, line.decode("utf-8", errors="surrogateescape")


def text_lines(file: Iterable[bytes], *, name: str, first: int = 0) -> Iterator[str]:
    """The lines of a stream that must all be UTF-8."""
    for number, line in numbered_lines(file, first=first):
        fault = why_unreadable(line)
        if fault is not None:
            raise UserError(f"{name}:{number}: {fault}; save the file as UTF-8.")
        yield line


def read_text(path: Path) -> Iterator[str]:
    """The lines of a file that must all be UTF-8."""
    with _reading(path) as file:
        yield from text_lines(file, name=str(path))


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers; bytes that are not UTF-8 are marked (`broken`)."""
    with _reading(path) as file:
        yield from numbered_lines(file)


def count_lines(path: Path) -> int:
    """How many lines a text file has, whatever is in them."""
    with _reading(path) as file:
        return sum(1 for _ in file)


def broken(text: str) -> bool:
    """Whether a text holds bytes that are not UTF-8, or half of a character, as JSON may."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def why_unreadable(text: str) -> str | None:
    """Why a text cannot be taken as it is; None if it can.

    UTF-16 of English is UTF-8 as well, with a NUL after every letter: it would be learned as it is.
    """
    if broken(text):
        return "not UTF-8 text"
    return "not UTF-8 text: there is a NUL character in it, as in UTF-16" if "\0" in text else None


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Iterable[bytes]]:
    """A file to read, compressed or not, or a sentence that says why it cannot be read."""
    try:
        with COMPRESSED.get(path.suffix, Path.open)(path, "rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"{path} cannot be read: {reason}.") from None
