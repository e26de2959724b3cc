"""Processes that train together: which of them this is, what they add up and what they share."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Item = TypeVar("Item")

BRIEF = 240
"""Bytes of a value that are sent in one message with its length; a longer one needs a second."""
BUCKET_BYTES = 32 * 2**20
"""Tensors are joined into buffers of about this size, so that few of them are sent."""


@dataclass(frozen=True)
class World:
    """Rank `rank` of `size` processes: its rows of a batch, sums over all ranks, who writes files.

    One process alone is rank 0 of 1. All ranks must call what communicates, in the same order.
    """

    rank: int = 0
    size: int = 1
    on_this_machine: int = 1
    """How many of the processes share this machine's memory and cores."""

    @property
    def writes(self) -> bool:
        """Whether this rank writes the files of the run; the others only compute."""
        return self.rank == 0

    @property
    def rows(self) -> slice:
        """The rows of every batch that belong to this rank: rank, rank + size, rank + 2 size, …"""
        return slice(self.rank, None, self.size)

    def share(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items that belong to this rank, dealt out one by one as rows are."""
        return islice(items, self.rank, None, self.size)

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor, in place, by its sum over all ranks."""
        if self.size > 1:
            raise NotImplementedError(f"{self.size} ranks need a World that communicates")

    def wait(self) -> None:
        """Go on only when every rank has come this far: a sum needs all of them."""
        self.add_up([torch.zeros(1)])

    def gather(self, value: Any) -> list[Any]:
        """What every rank brings, in the order of ranks: plain values, which JSON can hold."""
        if self.size == 1:
            return [value]
        text = json.dumps(value).encode()
        brief = self._gather_bytes(len(text).to_bytes(8) + text[:BRIEF], [8 + BRIEF] * self.size)
        lengths = [int.from_bytes(part[:8]) for part in brief]
        if max(lengths) > BRIEF:
            return [json.loads(part) for part in self._gather_bytes(text, lengths)]
        pairs = zip(brief, lengths, strict=True)
        return [json.loads(part[8 : 8 + length]) for part, length in pairs]

    def _gather_bytes(self, own: bytes, lengths: list[int]) -> list[bytes]:
        """What every rank brings, of these lengths: a sum, in which the others' places are zero."""
        places = torch.zeros(sum(lengths), dtype=torch.uint8).split(lengths)
        places[self.rank][: len(own)] = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        self.add_up(places)
        return [place.numpy().tobytes() for place in places]

    def from_first(self, value: Any) -> Any:
        """What rank 0 brings; what the others bring is not sent."""
        return self.gather(value if self.rank == 0 else None)[0]

    def join(self, shared: Sequence[Any]) -> list[Any]:
        """What all ranks made of their share of some items, in the order of the items."""
        parts = self.gather(list(shared))
        joined: list[Any] = [None] * sum(map(len, parts))
        for rank, part in enumerate(parts):
            joined[rank :: self.size] = part
        return joined

    def join_rows(self, own: Tensor) -> Tensor:
        """The rows of all ranks in the order of the batch; own: this rank's, in dimension 0."""
        if self.size == 1:
            return own
        rows = sum(self.gather(len(own)))
        whole = own.new_zeros(rows, *own.shape[1:])
        whole[self.rows] = own
        self.add_up([whole])
        return whole


class ProcessGroup(World):
    """Ranks that are processes, joined by torch.distributed: gloo on CPUs, nccl between GPUs."""

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        for bucket in _buckets(tensors):
            if len(bucket) == 1 and bucket[0].is_contiguous():  # a large one needs no second place
                dist.all_reduce(bucket[0])
                continue
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            dist.all_reduce(flat)
            parts = flat.split([tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.copy_(part.view_as(tensor))


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors of one type and device together, in the same buckets on every rank."""
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.numel():
            groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for group in groups.values():
        bucket: list[Tensor] = []
        size = 0
        for tensor in group:
            if bucket and size + tensor.nbytes > BUCKET_BYTES:
                yield bucket
                bucket, size = [], 0
            bucket.append(tensor)
            size += tensor.nbytes
        yield bucket


class LostRankError(Exception):
    """Another process has ended, or cannot be reached: this one cannot go on alone."""


SIGNS_OF_LOSS = ("gloo", "nccl", "connection closed", "connection reset")
"""Words of the errors of communication that have no type of their own, in lower case."""


@contextlib.contextmanager
def noticing_losses() -> Iterator[None]:
    """A failure of communication becomes a LostRankError; other errors stay what they are."""
    try:
        yield
    except dist.DistError as error:
        raise LostRankError(str(error)) from error
    except RuntimeError as error:
        if any(sign in str(error).lower() for sign in SIGNS_OF_LOSS):
            raise LostRankError(str(error)) from error
        raise
