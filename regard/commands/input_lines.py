"""Lines to predict, as they arrive: in large chunks from a file, one by one from a person."""

import itertools
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.commands.terminal import tell
from regard.data.lines import numbered_lines, read_lines
from regard.system.errors import UserError

TOGETHER = 1024
"""At most this many lines are predicted at a time; those of similar length share a batch."""

CHUNK = 1 << 16
"""Bytes read at a time from a stream."""


def input_file(file: Path | None) -> Path | None:
    """The file to read; None for standard input, with a word to the person who types there."""
    if file not in (None, Path("-")):
        return file
    if sys.stdin is None:
        raise UserError("standard input is closed; give a FILE.")
    if sys.stdin.isatty():
        tell("Type one input per line; Ctrl-D ends.")
    return None


def arriving(file: Path | None) -> Iterator[tuple[str, list[str]]]:
    """The name of the input and a chunk of its lines, again and again; no file: standard input.

    What is not UTF-8 is marked in the lines, and refused where they are read. A program that sends
    one line and waits for its output gets it: lines are not held back for later ones.
    """
    if file is None:
        yield from _as_it_comes("standard input", sys.stdin.buffer)
    elif file.is_fifo() or file.is_char_device():
        with file.open("rb", buffering=0) as stream:
            yield from _as_it_comes(str(file), stream)
    else:
        lines = (line for _, line in read_lines(file))
        while chunk := list(itertools.islice(lines, TOGETHER)):
            yield str(file), chunk


def _as_it_comes(name: str, stream: Any) -> Iterator[tuple[str, list[str]]]:
    """The lines of a stream that others may still be writing to."""
    done = 0
    for raw in _ready(stream):
        yield name, [line for _, line in numbered_lines(raw, first=done)]
        done += len(raw)


def _ready(stream: Any) -> Iterator[list[bytes]]:
    """The whole lines that can be had without waiting, and at the end what is left."""
    try:
        descriptor = stream.fileno()
    except OSError:  # no file of the system: all of it is here
        while chunk := list(itertools.islice(stream, TOGETHER)):
            yield chunk
        return
    rest = b""
    lines: list[bytes] = []
    while True:
        waits = bool(lines) and not _is_ready(descriptor)
        if lines and (waits or len(lines) >= TOGETHER):
            yield lines[:TOGETHER]
            lines = lines[TOGETHER:]
            continue
        arrived = os.read(descriptor, CHUNK)
        if not arrived:
            break
        *whole, rest = (rest + arrived).split(b"\n")
        lines += [line + b"\n" for line in whole]
    lines += [rest] if rest else []
    for begin in range(0, len(lines), TOGETHER):
        yield lines[begin : begin + TOGETHER]


def _is_ready(descriptor: int) -> bool:
    """Whether a read would not wait."""
    try:
        return bool(select.select([descriptor], [], [], 0)[0])
    except OSError:  # a system that cannot tell
        return True
