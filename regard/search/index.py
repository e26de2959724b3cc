"""An index: the vectors of a corpus in a folder, memory-mapped, with the lines that they are of.

manifest.json    what it was made of: the hashes of the model and of the corpus, and the pooling
vectors.npy      a vector of length 1 per line that has words; float32, or 8-bit integers
scales.npy       what the integers of each row are multiplied by, if they are integers
lines.txt        these lines
ends.npy         where each of them ends, in bytes
numbers.npy      the number of each in the corpus, counted from 1
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from pydantic import ConfigDict

from regard.data.lines import read_lines
from regard.nn.int8 import round_rows
from regard.runs.run import Run
from regard.search import exact
from regard.search.vector_files import NpyFile
from regard.system.errors import UserError
from regard.system.files import (
    remove,
    saying_what_failed,
    saying_why_unreadable,
    sha256,
    write_json,
    writing,
)
from regard.system.json_files import JsonError, read_json
from regard.tasks.embedding import Embedder

VERSION = 1
MANIFEST = "manifest.json"
TOGETHER = 4096
"""How many lines are encoded at a time."""
SAMPLE, NEAREST = 100, 10
"""How many lines are looked up, and how many neighbours of each, to measure the recall of int8."""

Numbers = Literal["float32", "int8"]


@dataclass(frozen=True)
class Manifest:
    """What an index was made of."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    version: int
    model: str
    """The hash of the weights, and of all that predictions depend on beside them."""
    pool: str
    corpus: str
    """The hash of the file."""
    numbers: Numbers
    width: int
    lines: int
    empty: int
    """Lines of the corpus without a word, which are not in the index."""
    long: int = 0
    """Lines that are longer than the model reads at once, and were read in parts."""
    recall: float | None = None
    """Of int8: the share of the 10 nearest float32 vectors that it finds, on a sample."""


@dataclass(frozen=True)
class Hit:
    """A line that was found."""

    line: int
    """Its number in the corpus, counted from 1."""
    score: float
    """The cosine between its vector and that of the query."""
    text: str


@dataclass(frozen=True)
class Index:
    """An open index."""

    path: Path
    manifest: Manifest
    embedder: Embedder

    def search(
        self, queries: Sequence[str], *, top: int = 5, name: str = "query"
    ) -> list[list[Hit]]:
        """The nearest lines to each query, the nearest first."""
        if top < 1:
            raise UserError(f"top={top} must be at least 1.")
        texts = self.embedder.read(queries, name=name).ids
        empty = next((number for number, ids in enumerate(texts) if not ids), None)
        if empty is not None:
            raise UserError(f"{name}:{empty + 1}: the line is empty: there is nothing to look for.")
        scores, rows = exact.search(
            self.embedder.vectors(texts), self._array("vectors"), top=top, scales=self._scales
        )
        return [
            [self._hit(row, score) for row, score in zip(*found, strict=True)]
            for found in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    @property
    def _scales(self) -> Float[np.ndarray, "N"] | None:
        return self._array("scales") if self.manifest.numbers == "int8" else None

    def _array(self, name: str) -> np.ndarray:
        path = self.path / f"{name}.npy"
        rows = {"vectors": (self.manifest.lines, self.manifest.width)}
        with saying_why_unreadable(path):
            try:
                array = np.load(path, mmap_mode="c", allow_pickle=False)
            except ValueError as error:
                raise _damaged(self.path, f"{path.name}: {error}") from None
        if array.shape != rows.get(name, (self.manifest.lines,)):
            raise _damaged(self.path, f"{path.name} has the shape {array.shape}")
        return array

    def _hit(self, row: int, score: float) -> Hit:
        ends, numbers = self._array("ends"), self._array("numbers")
        begin, end = int(ends[row - 1]) if row else 0, int(ends[row])
        with saying_why_unreadable(self.path), (self.path / "lines.txt").open("rb") as file:
            file.seek(begin)
            text = file.read(end - begin).decode("utf-8", errors="replace")
        return Hit(int(numbers[row]), score, text)


def default_place(corpus: Path) -> Path:
    """Where the index of a corpus is, if nothing else is said: beside it."""
    return corpus.with_name(f"{corpus.name}.index")


def model_hash(run: Run) -> str:
    """The hash of a run's weights and of all that its vectors depend on beside them."""
    weights = run.path / "model.safetensors"
    with saying_why_unreadable(weights):
        parts = {"weights": sha256(weights), "quantized": str(run.quantized)} | run.task.identity
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def open_index(
    run: Run,
    corpus: Path,
    *,
    place: Path | None = None,
    pool: str | None = None,
    numbers: Numbers = "float32",
    rebuild: bool = False,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Index:
    """The index of a corpus: the one that is there, or a new one.

    One of another model is refused: it may have taken hours to make. Where the corpus has changed
    since, or other numbers are wanted, it is made anew, which is told.
    """
    place = default_place(corpus) if place is None else place
    embedder = run.embedder(pool=pool, normalize=True, on_long="windows")
    wanted = Manifest(
        VERSION,
        model_hash(run),
        embedder.pool,
        _hash_of(corpus),
        numbers,
        embedder.width,
        lines=0,
        empty=0,
    )
    found = _read_manifest(place, damaged=rebuild)
    found = None if rebuild else found
    if found is not None:
        reason = _why_other(found, wanted, place, run.path)
        if reason is None:
            return Index(place, found, embedder)
        tell(reason)
    made = _build(place, corpus, embedder, wanted)
    empty = f" ({made.empty:,} empty lines left out)" if made.empty else ""
    long = f" ({made.long:,} read in parts: too long for the model)" if made.long else ""
    tell(f"{place}: {made.lines:,} lines{empty}{long}, {made.width} numbers each, {made.numbers}.")
    return Index(place, made, embedder)


def _hash_of(corpus: Path) -> str:
    if corpus.is_dir():
        raise UserError(f"{corpus} is a folder; name a text file, one text per line.")
    with saying_why_unreadable(corpus):
        return sha256(corpus)


def _read_manifest(place: Path, *, damaged: bool) -> Manifest | None:
    """What the index at a place was made of; None if there is nothing, or if it may be damaged.

    A folder without a manifest is none of ours: it is never replaced.
    """
    with saying_why_unreadable(place):
        if not place.exists():
            return None
    try:
        manifest: Manifest = read_json(place / MANIFEST, Manifest)
    except JsonError as error:
        if damaged and (place / MANIFEST).is_file():
            return None
        raise UserError(
            f"{place} is no index ({error.reason}): name another place with --index, or remove it."
        ) from None
    return manifest


def _why_other(found: Manifest, wanted: Manifest, place: Path, run: Path) -> str | None:
    """Why an index cannot be used and is made anew; None if it can."""
    if found.version != wanted.version:
        return f"{place} was made by another version of Regard: it is made anew."
    if (found.model, found.pool) != (wanted.model, wanted.pool):
        what = "another model" if found.model != wanted.model else f"--pool {found.pool}"
        raise UserError(
            f"{place} was made with {what}, and not with {run}"
            f"{'' if found.model != wanted.model else f' and --pool {wanted.pool}'}: their vectors "
            f"cannot be compared. Name another place with --index, or pass --rebuild."
        )
    if found.corpus != wanted.corpus:
        return f"{place}: the corpus has changed since: it is made anew."
    if found.numbers != wanted.numbers:
        return f"{place} holds {found.numbers}, not {wanted.numbers}: it is made anew."
    return None


def _build(place: Path, corpus: Path, embedder: Embedder, wanted: Manifest) -> Manifest:
    """Write an index, whole or not at all; what was there before is replaced."""
    with saying_what_failed(place):
        place.absolute().parent.mkdir(parents=True, exist_ok=True)
    with writing(place) as aside:
        aside.mkdir()
        made = _write_lines(aside, corpus, embedder, wanted)
        if made.numbers == "int8":
            made = replace(made, recall=_round(aside))
        write_json(aside / MANIFEST, vars(made))
        if place.exists():  # a folder takes the name of another only where there is none
            before = place.with_name(f".{place.name}.{os.getpid()}.0.part")
            place.rename(before)
            remove(before)
    return made


def _write_lines(folder: Path, corpus: Path, embedder: Embedder, wanted: Manifest) -> Manifest:
    """The lines of a corpus and their float32 vectors."""
    vectors = NpyFile(folder / "vectors.npy", width=embedder.width)
    ends = NpyFile(folder / "ends.npy", width=0, dtype=np.int64)
    numbers = NpyFile(folder / "numbers.npy", width=0, dtype=np.int64)
    lines, done, total, long = read_lines(corpus), 0, 0, 0
    try:
        with (folder / "lines.txt").open("wb") as file:
            while chunk := list(islice(lines, TOGETHER)):
                texts = [text for _, text in chunk]
                read = embedder.read(texts, name=str(corpus), first=done)
                done, long = done + len(chunk), long + read.long
                kept = [number for number, ids in enumerate(read.ids) if ids]
                found = embedder.vectors([read.ids[number] for number in kept])
                vectors.append(texts, found)
                encoded = [texts[number].encode() for number in kept]
                file.write(b"".join(encoded))
                lengths = np.array([len(text) for text in encoded], dtype=np.int64)
                ends.append(texts, total + lengths.cumsum())
                total += int(lengths.sum())
                numbers.append(texts, np.array([chunk[number][0] for number in kept], np.int64))
    finally:
        for array in (vectors, ends, numbers):
            array.close()
    if not vectors.rows:
        raise UserError(
            f"{corpus}: there is no line with a word in it: nothing can be found there."
        )
    return replace(wanted, lines=vectors.rows, empty=done - vectors.rows, long=long)


def _round(folder: Path) -> float:
    """Replace the vectors by 8-bit integers; how many of the nearest are still found."""
    path = folder / "vectors.npy"
    vectors = np.load(path, mmap_mode="c")
    rounded = NpyFile(folder / "rounded.npy", width=vectors.shape[1], dtype=np.int8)
    scales = NpyFile(folder / "scales.npy", width=0)
    for begin in range(0, len(vectors), TOGETHER):
        integers, scale = round_rows(torch.from_numpy(vectors[begin : begin + TOGETHER]))
        rounded.append((), integers.numpy())
        scales.append((), scale[:, 0].numpy())
    rounded.close()
    scales.close()
    step = max(1, len(vectors) // SAMPLE)
    queries, top = np.array(vectors[::step][:SAMPLE]), min(NEAREST, len(vectors))
    integers, scale = np.load(folder / "rounded.npy"), np.load(folder / "scales.npy")
    _, found = exact.search(queries, integers, top=top, scales=scale)
    _, nearest = exact.search(queries, vectors, top=top)
    (folder / "rounded.npy").replace(path)
    return exact.recall(found, nearest)


def _damaged(path: Path, what: str) -> UserError:
    return UserError(f"{path} is damaged ({what}): pass --rebuild to make it anew.")
