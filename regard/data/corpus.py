"""The token ids of a training file, kept on disk: made once, read by every later run."""

import contextlib
import hashlib
import json
import os
import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from regard.data.examples import PARTS, SIDES, OnDisk
from regard.data.tally import Tally
from regard.system.errors import UserError
from regard.system.files import (
    remove_whole,
    saying_what_failed,
    saying_why_unreadable,
    write_json,
    writing,
)
from regard.system.json_files import read_json

VERSION = 6
ABOUT = "about.json"
REMEDY = "Token ids are kept there; set REGARD_CACHE to a folder with room."


@dataclass(frozen=True)
class Counts:
    """What `Tally.counted` returns."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    counts: dict[str, int]
    places: dict[str, list[str]]
    rows: int
    tokens: int
    unknown: int
    cut: int
    characters: int
    bytes: int


@dataclass(frozen=True)
class About:
    """What stands beside the token ids."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    checksums: dict[str, int]
    """CRC-32 of every file, by name."""
    tally: Counts
    sides: list[str]
    own_checksum: str = ""
    """The hash of all the rest here."""

    @property
    def content(self) -> str:
        """The hash of everything but the hash itself."""
        values = asdict(self) | {"own_checksum": ""}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def cache_folder() -> Path:
    """Where token ids are kept: $REGARD_CACHE, or the user's cache."""
    folder = os.environ.get("REGARD_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def key_of(*parts: object) -> str:
    """One name for everything that the token ids depend on."""
    return hashlib.sha256(json.dumps([VERSION, *parts]).encode()).hexdigest()[:32]


def open_corpus(key: str, tally: Tally) -> OnDisk | None:
    """The examples of this key, if there are any; the tally becomes that of their making."""
    folder = cache_folder() / key
    with saying_why_unreadable(folder, remedy=REMEDY):
        if not folder.exists():
            return None
        try:
            about: About = read_json(folder / ABOUT, About)
            if about.own_checksum != about.content:
                raise ValueError(ABOUT)
            for name, checksum in about.checksums.items():
                if _checksum(folder / name) != checksum:
                    raise ValueError(name)
            corpus = OnDisk(folder, count=about.tally.rows, sides=about.sides)
        except (FileNotFoundError, ValueError):
            remove_whole(folder)  # damaged: it is only a copy
            return None
    tally.replace(asdict(about.tally))
    return corpus


def make_corpus(
    key: str,
    examples: Iterable[Sequence[Any]],
    *,
    tally: Tally,
    sides: Sequence[str] = SIDES,
) -> OnDisk:
    """Write the examples of this key, whole or not at all.

    An example is its row, which is not kept, the token ids of each side, and maybe more.
    """
    folder = cache_folder() / key
    try:
        with saying_what_failed(folder, remedy=REMEDY):
            folder.parent.mkdir(parents=True, exist_ok=True)
        with writing(folder, remedy=REMEDY) as aside:
            aside.mkdir()
            _write(aside, examples, sides)
            checksums = {path.name: _checksum(path) for path in sorted(aside.iterdir())}
            about = About(checksums, Counts(**tally.counted()), list(sides))
            write_json(aside / ABOUT, asdict(about) | {"own_checksum": about.content})
    except UserError:
        corpus = open_corpus(key, tally)  # another process may have been faster, with the same
        if corpus is None:
            raise
        return corpus
    return OnDisk(folder, count=tally.rows, sides=sides)


def _checksum(path: Path) -> int:
    """CRC-32 of a file of any size, read one chunk at a time."""
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _write(folder: Path, examples: Iterable[Sequence[Any]], sides: Sequence[str]) -> None:
    """The files of `OnDisk`."""
    with contextlib.ExitStack() as opened:
        files = [
            tuple(opened.enter_context((folder / f"{side}.{part}").open("wb")) for part in PARTS)
            for side in sides
        ]
        ends = [0] * len(files)
        for example in examples:
            rows = example[1 : 1 + len(files)]
            for side, (row, (ids_file, ends_file)) in enumerate(zip(rows, files, strict=True)):
                ends[side] += len(row)
                ids_file.write(array("I", row).tobytes())
                ends_file.write(ends[side].to_bytes(8, sys.byteorder))
