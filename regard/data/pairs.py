"""Pairs of texts, source and target: from a generator, or from a tab-separated file."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from regard.config import Data
from regard.data.synthetic import (
    SHORTEST,
    TASKS,
    Pair,
    Split,
    held_out_pairs,
    training_pairs,
)
from regard.errors import UserError


@dataclass
class PairSource:
    """Where the pairs of one split come from, and how many lines of it were left out."""

    name: str
    split: Split
    data: Data
    skipped: int = field(default=0, init=False)
    _kept: list[Pair] | None = field(default=None, init=False, repr=False)

    @property
    def generated(self) -> bool:
        """Whether the pairs are made on the fly."""
        return self.name in TASKS

    @property
    def endless(self) -> bool:
        """Whether every epoch has new ones."""
        return self.generated and self.split == "train"

    @property
    def path(self) -> Path:
        return Path(self.data.directory) / self.name

    @property
    def fingerprint(self) -> str:
        """What the pairs depend on: the generator's name, or the hash of the file."""
        return self.name if self.generated else sha256(self.path.read_bytes()).hexdigest()

    def pairs(self, *, seed: int = 0, epoch: int = 0) -> list[Pair]:
        """The pairs of one epoch; a file's, and a held-out set's, are the same in every one."""
        if self.endless:
            self._check_length()
            return training_pairs(self.name, seed=seed, epoch=epoch, longest=self.data.max_length)
        if self._kept is None:
            self._kept = self._held_out() if self.generated else self._read()
        return self._kept

    def _held_out(self) -> list[Pair]:
        self._check_length()
        return held_out_pairs(self.name, self.split, longest=self.data.max_length)

    def _check_length(self) -> None:
        if self.data.max_length < SHORTEST:
            raise UserError(
                f"data.max_length={self.data.max_length} is less than the {SHORTEST} digits of "
                f"the shortest sequence that {self.name} makes."
            )

    def _read(self) -> list[Pair]:
        """A pair a line, source and target with a tab between them."""
        if not self.path.is_file():
            raise UserError(
                f"data.{self.split}={self.name!r} is neither a generator ({', '.join(TASKS)}) nor "
                f"a file: there is none at {self.path} (--data says where the files are)."
            )
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
        for side, text in zip(("source", "target"), columns, strict=True):
            words = len(text.split())
            if words == 0:
                return f"the {side} is empty"
            if words > self.data.max_length:
                return f"the {side} has {words} tokens where data.max_length={self.data.max_length}"
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
