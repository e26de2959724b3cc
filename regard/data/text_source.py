"""Where running text comes from: a file, a folder of files, or rows with a text each."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.data.formats import FOLDER, FORMATS, Files, find_files
from regard.data.lines import ending, read_lines, why_unreadable
from regard.data.row_source import LEARNED_FROM
from regard.data.rows import Fault, Field, Layout, Row
from regard.data.source import Source, hash_of
from regard.data.splits import part_of
from regard.data.tally import Tally
from regard.system.errors import UserError

PIECE = 1024
"""A document longer than this many characters is handed over in pieces."""
LONGEST_PIECE = 2**20
"""The most characters of a piece, where no line of it can be the first of the next."""
IN_FOLDERS = (".txt", ".jsonl")
"""The files of a folder that are read, compressed or not."""
SAVED_DATASET = "state.json"
"""What `datasets` puts into a folder that it saves."""
ROWS = (*FORMATS, ".tsv")
"""Formats with a document per row, whose text stands in the column `data.text`."""

TITLE = re.compile(r"= [^=].*[^=] =|= [^=] =")
TITLE_FOLLOWS = "\n"
"""Stands before a title; no line has a line break in it."""


class Piece(NamedTuple):
    """A part of a document: its text, and whether the document ends there."""

    text: str
    ends: bool

    @property
    def characters(self) -> int:
        """Those of the text, and one for the end of a document."""
        return len(self.text) + self.ends

    @property
    def bytes(self) -> int:
        """The same in UTF-8."""
        return len(self.text.encode()) + self.ends

    def divided(self, characters: int) -> "tuple[Piece | None, Piece | None]":
        """As much as ends before so many characters, and the rest; a line stays whole."""
        if characters <= 0:
            return None, self
        end = self.text.rfind("\n", 0, characters) + 1
        if end == 0 or characters >= self.characters:
            return self, None
        return Piece(self.text[:end], False), Piece(self.text[end:], self.ends)


@dataclass
class TextSource(Source):
    """The text of one split as a stream of pieces; nothing but the newest is in memory."""

    every: int = field(default=1, init=False)
    """A tokenizer is learned from one piece in this many."""

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The files that the name means, in order."""
        files = find_files(self.path, Layout((Field("text"),), ("",)))
        if files is None:
            self.check_file()
            raise UserError(f"{self.path} cannot be read as text.")
        (path,) = files.paths
        self.refuse_pipe(path)
        if not path.is_dir() or (path / SAVED_DATASET).is_file():
            return (path,)
        texts = tuple(file for file in _files_in(path) if ending(file) in IN_FOLDERS)
        if not texts:
            raise UserError(
                f"data.{self.split}={self.name!r}: the folder {path} holds no file that ends in "
                f"{' or '.join(IN_FOLDERS)}."
            )
        return texts

    @property
    def ignored(self) -> int:
        """How many files of a folder are not read."""
        read_whole = self.generated or not self.path.is_dir() or self.files == (self.path,)
        return 0 if read_whole else len(_files_in(self.path)) - len(self.files)

    @property
    def fingerprint(self) -> str:
        if self.generated:
            return self.name
        return "+".join(hash_of(path) for path in self.files)

    def new_tally(self) -> Tally:
        """Counts for one reading of this source, all zero."""
        return Tally(self.data.on_bad_line)

    def pieces(self, tally: Tally | None = None) -> Iterator[Piece]:
        """The text of this split; where data.held_out divides a text, its part of it.

        tally: counts the lines that are left out, if they are not refused.
        """
        tally = self.new_tally() if tally is None else tally
        pieces = self._generated() if self.generated else self._read(tally)
        if self.divided and not self.has_rows:
            pieces = self._part(pieces)
        some = False
        for piece in pieces:
            some = some or bool(piece.text.strip())
            yield piece
        if not some:
            raise UserError(f"{self.path}: the file contains no text.")

    def to_learn_from(self) -> Iterator[str]:
        """The texts that a tokenizer is learned from: all, or every n-th piece of a long text."""
        if not self.generated:
            self.every = max(1, math.ceil(sum(1 for _ in self.pieces()) / LEARNED_FROM))
        yield from islice((piece.text for piece in self.pieces()), 0, None, self.every)

    @property
    def divided(self) -> bool:
        """Whether several splits are parts of one text."""
        return bool(self.data.held_out) and self.of_training

    def _part(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The first 1 − held_out of all characters for train, and the rest for valid and test."""
        left = int((1 - self.data.held_out) * self._characters)
        for piece in pieces:
            first, rest = piece.divided(left)
            part = first if self.split == "train" else rest
            if part is not None:
                yield part
            left -= piece.characters

    @cached_property
    def _characters(self) -> int:
        """How many characters all splits of this text have."""
        pieces = self._generated() if self.generated else self._read(Tally("skip"))
        return sum(piece.characters for piece in pieces)

    def _generated(self) -> Iterator[Piece]:
        """A generator's texts, each one once."""
        for text in dict.fromkeys(source for source, _ in self.generate()):
            yield Piece(text, True)

    @cached_property
    def has_rows(self) -> bool:
        """Whether it is rows with a document each, which data.held_out splits as pairs are."""
        return not self.generated and all(map(_has_rows, self.files))

    def _read(self, tally: Tally) -> Iterator[Piece]:
        for path in self.files:
            if _has_rows(path):
                yield from self._rows(path, tally)
            elif self.data.label:
                raise UserError(
                    f"data.label={self.data.label!r} names a column, and {path} has none: it is "
                    f"for {', '.join(ending for ending in ROWS if ending != FOLDER)}."
                )
            else:
                lines = (row["line"] for row in tally.good(_lines(path)))
                yield from documents(lines, self.data.documents)

    def _rows(self, path: Path, tally: Tally) -> Iterator[Piece]:
        """A document per row: its text, after its label if it has one."""
        data = self.data
        layout = Layout((Field("text"),), (data.text,))
        if data.label:
            layout = Layout((*layout.fields, Field("label", "label")), (data.text, data.label))
        for row in tally.good(Files((path,), layout).records()):
            text: str = row["text"]
            part = part_of(text, share=data.held_out, seed=data.split_seed)
            if part == self.split or not (self.divided and self.has_rows):
                yield Piece(labelled(text, row["label"]) if data.label else text, True)


def labelled(text: str, label: str) -> str:
    """A text with the condition that it was written under, as a model learns to go on from it."""
    return f"{label}: {text}"


def _has_rows(path: Path) -> bool:
    return path.is_dir() or ending(path) in ROWS


def _files_in(folder: Path) -> list[Path]:
    """All files of a folder and its folders but hidden ones, by name."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if not path.name.startswith(".")]


def _lines(path: Path) -> Iterator[Row | Fault]:
    """The lines of a text, empty ones too, which are part of it."""
    for number, line in read_lines(path):
        fault = why_unreadable(line)
        if fault is None:
            yield Row(path, number, {"line": line})
        else:
            yield Fault(path, number, f"{fault}; save the file as UTF-8")


def documents(lines: Iterator[str], kind: str) -> Iterator[Piece]:
    """The documents of a text, as `data.documents` divides it."""
    if kind == "lines":
        return (Piece(line, True) for line in lines)
    if kind == "files":
        return _joined(lines, lambda line: False)
    if kind == "paragraphs":
        return _joined(lines, lambda line: not line.strip())
    if kind == "titles":
        return _joined(_before_titles(lines), lambda line: line == TITLE_FOLLOWS)
    return _joined(lines, lambda line: line.strip() == kind)


def _before_titles(lines: Iterator[str]) -> Iterator[str]:
    """The lines, and a mark before each title such as ` = Hamlet = `; ` = = Plot = = ` is none."""
    for line in lines:
        if TITLE.fullmatch(line.strip()):
            yield TITLE_FOLLOWS
        yield line


def _joined(lines: Iterator[str], divides: Callable[[str], bool]) -> Iterator[Piece]:
    """What stands between the lines that divide; nothing comes of nothing.

    A piece ends before a line that begins with no space: tokenizers split there, so that pieces
    have the tokens of the whole.
    """
    held: list[str] = []
    size = 0
    for line in lines:
        if divides(line):
            if held:
                yield Piece("\n".join(held), True)
            held, size = [], 0
            continue
        if size >= PIECE and (line[:1].strip() or size >= LONGEST_PIECE):
            yield Piece("\n".join(held) + "\n", False)
            held, size = [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield Piece("\n".join(held), True)
