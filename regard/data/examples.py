"""Token ids of many rows, by side: in memory, or in files that are mapped as they are needed."""

import mmap
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

Ids = list[int]


@dataclass(frozen=True)
class Side:
    """Rows of ids one after another: row n is ids[ends[n − 1] : ends[n]]."""

    ids: np.ndarray
    ends: np.ndarray

    def rows(self, numbers: Int[np.ndarray, "B"]) -> list[Ids]:
        ends = self.ends[numbers]
        begins = np.where(numbers > 0, self.ends[numbers - 1], 0)
        return [
            self.ids[begin:end].tolist()
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def lengths(self, begin: int, end: int) -> Int[np.ndarray, "N"]:
        """The lengths of rows begin, …, end − 1."""
        before = self.ends[begin - 1] if begin else 0
        return np.diff(self.ends[begin:end], prepend=before)


SIDES = ("source", "target")
PARTS = ("ids", "ends")


class Examples(ABC):
    """The token ids of a set of examples, side by side: source and target, or others."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sides(self) -> tuple[Side, ...]:
        """All sides, in order; not to be kept, for a mapped file takes memory while they are."""

    def lengths(self, begin: int, end: int) -> Int[np.ndarray, "N sides"]:
        """How many tokens each side of some consecutive rows has."""
        return np.stack([side.lengths(begin, end) for side in self.sides()], axis=1)

    def rows(self, numbers: Int[np.ndarray, "B"]) -> tuple[list[Ids], ...]:
        """The ids of these rows, side by side."""
        return tuple(side.rows(numbers) for side in self.sides())


class InMemory(Examples):
    """Examples as arrays, made of the rows of each side."""

    def __init__(self, *sides: Sequence[Ids]) -> None:
        self._sides = tuple(map(_side, sides))

    def __len__(self) -> int:
        return len(self._sides[0].ends)

    def sides(self) -> tuple[Side, ...]:
        return self._sides


def _side(rows: Sequence[Ids]) -> Side:
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    ids = np.fromiter((id for row in rows for id in row), dtype=np.int32, count=lengths.sum())
    return Side(ids, np.cumsum(lengths))


class OnDisk(Examples):
    """Examples in a folder, mapped anew for every use, so that memory is freed after it.

    SIDE.ids holds the ids of a side, 32 bits each; SIDE.ends, 64 bits each, where every row ends.
    The files are opened once: they can be read even when somebody has emptied the folder.
    """

    def __init__(self, folder: Path, *, count: int, sides: Sequence[str] = SIDES) -> None:
        self._count = count
        self._files = [tuple(_File(folder / f"{name}.{part}") for part in PARTS) for name in sides]

    def __len__(self) -> int:
        return self._count

    def sides(self) -> tuple[Side, ...]:
        return tuple(
            Side(ids.mapped(np.uint32), ends.mapped(np.int64)) for ids, ends in self._files
        )


class _File:
    """A file that stays open as long as this object lives."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    def mapped(self, dtype: type) -> np.ndarray:
        """All of it as an array, in memory only as far and as long as it is used."""
        if os.fstat(self._descriptor).st_size == 0:  # which cannot be mapped
            return np.empty(0, dtype=dtype)
        return np.frombuffer(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ), dtype=dtype)
