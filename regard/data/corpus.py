"""The token ids of a file of pairs, kept on disk: made once, read by every later run."""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import zlib
from array import array
from collections.abc import Iterable
from pathlib import Path

from regard.data.examples import PARTS, SIDES, Ids, OnDisk
from regard.data.tally import Tally
from regard.system.errors import UserError

VERSION = 2
ABOUT = "about.json"


def cache_folder() -> Path:
    """Where token ids are kept: $REGARD_CACHE, or the user's cache."""
    given = os.environ.get("REGARD_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def key_of(*parts: object) -> str:
    """One name for all that the token ids depend on."""
    return hashlib.sha256(json.dumps([VERSION, *parts]).encode()).hexdigest()[:32]


def open_corpus(key: str, tally: Tally) -> OnDisk | None:
    """The examples of this key, if they are there; the tally is what it was when they were made."""
    folder = cache_folder() / key
    if not folder.exists():
        return None
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        for name, checksum in about["checksums"].items():
            if _checksum(folder / name) != checksum:
                raise ValueError(name)
        tally.begin(about["tally"])
        return OnDisk(folder, count=tally.rows)
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(folder, ignore_errors=True)  # damaged: it is only a copy
        return None


def make_corpus(key: str, lines: Iterable[tuple[object, Ids, Ids]], *, tally: Tally) -> OnDisk:
    """Write the examples of this key, whole or not at all; a line is whatever, source, target."""
    folder = cache_folder() / key
    aside = folder.with_name(f".{key}.{os.getpid()}.part")
    try:
        aside.mkdir(parents=True)
        _write(aside, lines)
        checksums = {path.name: _checksum(path) for path in sorted(aside.iterdir())}
        about = {"checksums": checksums, "tally": tally.counted()}
        (aside / ABOUT).write_text(json.dumps(about), encoding="utf-8")
        if not folder.exists():  # another process may have been faster, with the same bytes
            os.replace(aside, folder)
    except OSError as error:
        raise UserError(
            f"{folder} could not be written: {error.strerror}. Token ids are kept there; set "
            f"REGARD_CACHE to a folder with room."
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return OnDisk(folder, count=tally.rows)


def _checksum(path: Path) -> int:
    """Of a file of any size, read a stretch at a time."""
    found = 0
    with path.open("rb") as file:
        while stretch := file.read(2**20):
            found = zlib.crc32(stretch, found)
    return found


def _write(folder: Path, lines: Iterable[tuple[object, Ids, Ids]]) -> None:
    """The files of `OnDisk`."""
    with contextlib.ExitStack() as opened:
        files = [
            tuple(opened.enter_context((folder / f"{name}.{part}").open("wb")) for part in PARTS)
            for name in SIDES
        ]
        written = [0, 0]
        for _, *sides in lines:
            for side, (row, (ids, ends)) in enumerate(zip(sides, files, strict=True)):
                written[side] += len(row)
                ids.write(array("I", row).tobytes())
                ends.write(written[side].to_bytes(8, sys.byteorder))
