"""Vectors of lines as a file, written as they come: .npy for arrays, .jsonl with the lines."""

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Shaped

from regard.system.errors import UserError
from regard.system.files import saying_what_failed, writing
from regard.tasks.embedding import Embedder
from regard.tasks.request import Counts, Refusal

Chunks = Iterable[tuple[str, Sequence[str]]]
"""The name of the input and some of its lines, again and again."""


class VectorFile(Protocol):
    """A file that vectors are appended to."""

    def append(self, lines: Sequence[str], vectors: Float[np.ndarray, "N D"]) -> None: ...

    def close(self) -> None: ...


class NpyFile:
    """Rows of an array, in numpy's format; how many there are is written at the end.

    The header has room for any number of rows, so that it need not be known when the file begins.
    """

    def __init__(self, path: Path, *, width: int, dtype: Any = np.float32) -> None:
        self.rows = 0
        self._width, self._dtype = width, np.dtype(dtype)
        self._file = path.open("wb")
        self._file.write(self._header())

    def _header(self) -> bytes:
        buffer = io.BytesIO()
        shape = (self.rows, self._width) if self._width else (self.rows,)
        description = {"shape": shape, "fortran_order": False}
        np.lib.format.write_array_header_1_0(
            buffer, description | {"descr": np.lib.format.dtype_to_descr(self._dtype)}
        )
        return buffer.getvalue()

    def append(self, lines: Sequence[str], vectors: Shaped[np.ndarray, "N *D"]) -> None:
        self._file.write(np.ascontiguousarray(vectors, dtype=self._dtype).data)
        self.rows += len(vectors)

    def close(self) -> None:
        begin = self._header()
        assert len(begin) == self._file.seek(0, 1) - self.rows * self._row_bytes
        self._file.seek(0)
        self._file.write(begin)
        self._file.close()

    @property
    def _row_bytes(self) -> int:
        return max(1, self._width) * self._dtype.itemsize


class JsonLinesFile:
    """One object per line: {"line": 1, "text": …, "vector": […]}."""

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._file = path.open("w", encoding="utf-8")

    def append(self, lines: Sequence[str], vectors: Float[np.ndarray, "N D"]) -> None:
        for line, vector in zip(lines, vectors, strict=True):
            self.rows += 1
            text = line.encode(errors="replace").decode()
            value = {"line": self.rows, "text": text, "vector": vector.tolist()}
            self._file.write(json.dumps(value, ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._file.close()


ENDINGS = (".npy", ".jsonl")
MOST_NAMED = 5
"""At most this many unreadable lines are named; all are counted."""


def refuse_ending(path: Path) -> None:
    """Refuse a file whose name does not say what it is to hold."""
    if path.suffix not in ENDINGS:
        raise UserError(f"--out {path}: the name must end in {' or '.join(ENDINGS)}.")
    if path.is_dir():
        raise UserError(f"--out {path} is a folder; name a file.")


class Embedded:
    """What became of the lines of an input."""

    def __init__(self) -> None:
        self.lines = self.empty = self.long = self.unreadable = 0
        self.counts = Counts()
        self.refusals: list[Refusal] = []


def embed_to_file(embedder: Embedder, chunks: Chunks, out: Path, *, skip: bool) -> Embedded:
    """Write the vector of every line, in order; the file is whole or not there.

    skip: a line that cannot be read has zeros, as an empty one, and is no error.
    """
    refuse_ending(out)
    with saying_what_failed(out):
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
    done = Embedded()
    with writing(out) as aside:
        file: VectorFile = (
            NpyFile(aside, width=embedder.width) if out.suffix == ".npy" else JsonLinesFile(aside)
        )
        try:
            for name, lines in chunks:
                read = embedder.read(lines, name=name, first=done.lines, skip=skip)
                file.append(lines, embedder.vectors(read.ids))
                done.lines += len(lines)
                done.empty += sum(not ids for ids in read.ids)
                done.long += read.long
                done.counts += read.counts
                done.unreadable += len(read.refusals)
                done.refusals += read.refusals[: MOST_NAMED - len(done.refusals)]
        finally:
            file.close()
    return done
