"""Token ids of many pairs: in memory, or in files that are mapped into it as they are needed."""

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
        """Of the rows begin, …, end − 1."""
        before = self.ends[begin - 1] if begin else 0
        return np.diff(self.ends[begin:end], prepend=before)


class Examples(ABC):
    """Sources and targets of a set, as token ids."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sides(self) -> tuple[Side, Side]:
        """Source and target; whoever is done with them lets them go."""

    def lengths(self, begin: int, end: int) -> Int[np.ndarray, "N 2"]:
        """How many tokens the source and the target of some consecutive rows have."""
        return np.stack([side.lengths(begin, end) for side in self.sides()], axis=1)

    def rows(self, numbers: Int[np.ndarray, "B"]) -> tuple[list[Ids], list[Ids]]:
        """Sources and targets of these rows."""
        source, target = self.sides()
        return source.rows(numbers), target.rows(numbers)


class InMemory(Examples):
    """Examples as arrays."""

    def __init__(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> None:
        self._sides = (_side(sources), _side(targets))

    def __len__(self) -> int:
        return len(self._sides[0].ends)

    def sides(self) -> tuple[Side, Side]:
        return self._sides


def _side(rows: Sequence[Ids]) -> Side:
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    ids = np.fromiter((one for row in rows for one in row), dtype=np.int32, count=lengths.sum())
    return Side(ids, np.cumsum(lengths))


SIDES = ("source", "target")
PARTS = ("ids", "ends")


class OnDisk(Examples):
    """Examples in a folder, mapped anew for every use, so that what was read can be let go.

    source.ids and target.ids hold the ids, 32 bits each; source.ends and target.ends, 64 bits
    each, where every row ends.
    """

    def __init__(self, folder: Path, *, count: int) -> None:
        self.folder = folder
        self._count = count

    def __len__(self) -> int:
        return self._count

    def sides(self) -> tuple[Side, Side]:
        source, target = (
            Side(
                _mapped(self.folder / f"{name}.ids", np.uint32),
                _mapped(self.folder / f"{name}.ends", np.int64),
            )
            for name in SIDES
        )
        return source, target


def _mapped(path: Path, dtype: type) -> np.ndarray:
    if path.stat().st_size == 0:  # which cannot be mapped
        return np.empty(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r")
