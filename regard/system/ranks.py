"""Processes that train together: which of them this is, and what they add up. Today one, alone."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class World:
    """Rank `rank` of `size` processes: its rows of a batch, sums over all ranks, who writes files.

    One process alone is rank 0 of 1. Several need a World whose `add_up` communicates.
    """

    rank: int = 0
    size: int = 1

    @property
    def writes(self) -> bool:
        """Whether this rank writes the files of the run; the others only compute."""
        return self.rank == 0

    @property
    def rows(self) -> slice:
        """The rows of every batch that belong to this rank: rank, rank + size, rank + 2 size, …"""
        return slice(self.rank, None, self.size)

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor, in place, by its sum over all ranks."""
        if self.size > 1:
            raise NotImplementedError(f"{self.size} ranks need a World that communicates")

    def wait(self) -> None:
        """Go on only when every rank has come this far: a sum needs all of them."""
        self.add_up([torch.zeros(1)])
