"""Caches: the keys and values of the positions already read, so that none is computed twice."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KVCache:
    """Keys and values (B H L K) that grow along L.

    Without it, step t of decoding projects all t tokens again: T(T+1)/2 projections for T tokens.
    With it, each token is projected once:

        cache = KVCache()
        cache.append(key, value)   # B H 3 K, the prompt      -> returns B H 3 K
        cache.append(key, value)   # B H 1 K, the next token  -> returns B H 4 K

    Positions stand in the first dimension, so that what is filled is contiguous: to select rows
    copies that and not the room behind it. Room is doubled when it runs out, so that appending
    costs no copy on most steps. Appending changes the cache; `select` makes one that has its own
    room.
    """

    def __init__(self) -> None:
        self.length = 0
        self._key: Tensor | None = None  # room B H K
        self._value: Tensor | None = None

    def append(
        self, key: Float[Tensor, "B H L K"], value: Float[Tensor, "B H L K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]:
        """Add these at the end, and return all keys and all values."""
        key, value = key.permute(2, 0, 1, 3), value.permute(2, 0, 1, 3)  # L B H K
        end = self.length + key.size(0)
        if self._key is None or self._value is None:
            self._key, self._value = key, value
        else:
            if end > self._key.size(0):
                self._key = _with_room(self._key[: self.length], 2 * end)
                self._value = _with_room(self._value[: self.length], 2 * end)
            self._key[self.length : end] = key
            self._value[self.length : end] = value
        self.length = end
        return self.key, self.value

    @property
    def key(self) -> Float[Tensor, "B H L K"]:
        """All keys so far."""
        if self._key is None:
            raise ValueError("this cache is empty: nothing was appended to it yet")
        return self._key[: self.length].permute(1, 2, 0, 3)

    @property
    def value(self) -> Float[Tensor, "B H L K"]:
        """All values so far."""
        if self._value is None:
            raise ValueError("this cache is empty: nothing was appended to it yet")
        return self._value[: self.length].permute(1, 2, 0, 3)

    def cut(self, length: int) -> "KVCache":
        """The cache with its first `length` positions alone.

        It takes the room over: what is appended to one of the two is written into the other.
        """
        shorter = KVCache()
        shorter.length = min(length, self.length)
        shorter._key, shorter._value = self._key, self._value
        return shorter

    @torch.no_grad()
    def select(self, rows: Int[Tensor, "N"]) -> "KVCache":
        """The cache of these rows of the batch: some dropped, some repeated, in this order.

        No gradient goes through it: only in decoding are rows chosen.
        """
        chosen = KVCache()
        chosen.length = self.length
        if self._key is not None and self._value is not None:
            chosen._key = _with_room(self._key[: self.length], self._key.size(0), rows)
            chosen._value = _with_room(self._value[: self.length], self._value.size(0), rows)
        return chosen


def _with_room(
    old: Float[Tensor, "S B H K"], room: int, rows: Int[Tensor, "N"] | None = None
) -> Float[Tensor, "R N H K"]:
    """The old, or these rows of it, in a buffer with space for `room` positions."""
    S, B, H, K = old.shape
    buffer = old.new_empty(room, B if rows is None else rows.numel(), H, K)
    if rows is None:
        buffer[:S] = old
    else:
        torch.index_select(old, 1, rows, out=buffer[:S])
    return buffer


@dataclass
class LayerCache:
    """What one block need not compute again: its own past, and the keys and values of a memory."""

    self_attention: KVCache
    cross_attention: KVCache | None = None

    def select(
        self, rows: Int[Tensor, "N"], memory_rows: Int[Tensor, "M"] | None = None
    ) -> "LayerCache":
        """These rows of the batch and of the memory; None: the memory as it is."""
        cross = self.cross_attention
        return LayerCache(
            self.self_attention.select(rows),
            cross if cross is None or memory_rows is None else cross.select(memory_rows),
        )

    def cut(self, length: int) -> "LayerCache":
        """The first `length` positions of its own past alone."""
        return LayerCache(self.self_attention.cut(length), self.cross_attention)
