"""Pairs of texts, source and target: from a generator, or from a tab-separated file."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from regard.data.generators import GENERATORS, Endless
from regard.data.source import Source
from regard.data.splits import Pair
from regard.data.tokenizer import Kind
from regard.errors import UserError

MOST_SHOWN = 12
"""Classes named in a message."""

Measure = Callable[[str], int]
"""How many tokens a text has."""


def measure(kind: Kind) -> Measure:
    """Words between spaces, or characters."""
    return (lambda text: len(text.split())) if kind == "words" else len


def listed_classes(classes: Collection[str]) -> str:
    """The first of the classes, to show in a message."""
    return ", ".join(list(classes)[:MOST_SHOWN]) + (", …" if len(classes) > MOST_SHOWN else "")


def any_length(text: str) -> int:
    """For what is no sequence, such as the name of a class."""
    return 0


@dataclass
class PairSource(Source):
    """Where the pairs of one split come from, and how many lines of it were left out."""

    measures: tuple[Measure, Measure]
    """Of the source and of the target."""
    known: Collection[str] | None = None
    """The only targets that may stand there, where not all may."""
    skipped: int = field(default=0, init=False)
    _kept: list[Pair] | None = field(default=None, init=False, repr=False)

    @property
    def endless(self) -> bool:
        """Whether every epoch has new ones."""
        return self.split == "train" and isinstance(GENERATORS.get(self.name), Endless)

    def pairs(self, *, seed: int = 0, epoch: int = 0) -> list[Pair]:
        """The pairs of one epoch; a file's, and a held-out set's, are the same in every one."""
        if self.endless:
            return GENERATORS[self.name].training(self.data, seed=seed, epoch=epoch)
        if self._kept is None:
            self._kept = self.generate() if self.generated else self._read()
        return self._kept

    def _read(self) -> list[Pair]:
        """A pair a line, source and target with a tab between them."""
        self.check_file()
        found: list[Pair] = []
        self.skipped = 0
        for number, line in enumerate(read_lines(self.path), start=1):
            columns = line.split("\t")
            fault = self._fault(columns)
            if fault is None:
                found.append((columns[0], columns[1]))
            elif self.data.on_bad_line == "skip":
                self.skipped += 1
            else:
                raise UserError(
                    f"{self.path}:{number}: {fault}. Fix the line, or pass "
                    f"-s data.on_bad_line=skip to leave such lines out; they are counted."
                )
        if not found:
            raise UserError(f"{self.path}: there is no usable line in it.")
        return found

    def _fault(self, columns: list[str]) -> str | None:
        if len(columns) != 2:
            count = f"{len(columns)} column{'s' if len(columns) != 1 else ''}"
            return f"{count} where 2 are expected (tab-separated: source, target)"
        most = self.data.max_length
        for side, text, tokens in zip(("source", "target"), columns, self.measures, strict=True):
            if not text.split():
                return f"the {side} is empty"
            if tokens(text) > most:
                return f"the {side} has {tokens(text)} tokens where data.max_length={most}"
        if self.known is not None and columns[1] not in self.known:
            classes = listed_classes(self.known)
            return f"the class {columns[1][:40]!r} is unknown; data.train has {classes}"
        return None


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without their ends."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    return decode_lines(text, name=str(path))


def decode_lines(text: bytes, *, name: str) -> list[str]:
    """The lines of UTF-8 bytes; only a line feed ends one, so that none is gained or lost."""
    try:
        lines = text.removeprefix(b"\xef\xbb\xbf").decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        number = text[: error.start].count(b"\n") + 1
        raise UserError(f"{name}:{number}: not UTF-8 text; save the file as UTF-8.") from None
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
