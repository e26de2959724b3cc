"""KVCache: the keys and values of the positions already seen, so that none is computed twice."""

from jaxtyping import Float, Int
from torch import Tensor


class KVCache:
    """Keys and values (B H L K) that grow along L.

    Without it, step t of decoding projects all t tokens again: T(T+1)/2 projections for T tokens.
    With it, each token is projected once:

        cache = KVCache()
        cache.append(key, value)   # B H 3 K, the prompt      -> returns B H 3 K
        cache.append(key, value)   # B H 1 K, the next token  -> returns B H 4 K

    Room is doubled when it runs out, so that appending costs no copy on most steps. Appending
    changes the cache; `select` makes one that has its own room.
    """

    def __init__(self) -> None:
        self.length = 0
        self._key: Tensor | None = None  # B H room K
        self._value: Tensor | None = None

    def append(
        self, key: Float[Tensor, "B H L K"], value: Float[Tensor, "B H L K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]:
        """Keep these too, and give back all."""
        end = self.length + key.size(2)
        if self._key is None or self._value is None:
            self._key, self._value = key, value
        elif end > self._key.size(2):
            self._key = _grown(self._key[:, :, : self.length], key, room=2 * end)
            self._value = _grown(self._value[:, :, : self.length], value, room=2 * end)
        else:
            self._key[:, :, self.length : end] = key
            self._value[:, :, self.length : end] = value
        self.length = end
        return self.key, self.value

    @property
    def key(self) -> Float[Tensor, "B H L K"]:
        """All keys so far."""
        if self._key is None:
            raise ValueError("this cache is empty: nothing was appended to it yet")
        return self._key[:, :, : self.length]

    @property
    def value(self) -> Float[Tensor, "B H L K"]:
        """All values so far."""
        if self._value is None:
            raise ValueError("this cache is empty: nothing was appended to it yet")
        return self._value[:, :, : self.length]

    def select(self, rows: Int[Tensor, "N"]) -> "KVCache":
        """The cache of these rows of the batch: some dropped, some repeated, in this order."""
        chosen = KVCache()
        chosen.length = self.length
        if self._key is not None and self._value is not None:
            chosen._key = self._key.index_select(0, rows)
            chosen._value = self._value.index_select(0, rows)
        return chosen


def _grown(
    old: Float[Tensor, "B H S K"], new: Float[Tensor, "B H L K"], *, room: int
) -> Float[Tensor, "B H R K"]:
    """Old and new in one buffer with space for `room` positions."""
    B, H, S, K = old.shape
    buffer = old.new_empty(B, H, room, K)
    buffer[:, :, :S] = old
    buffer[:, :, S : S + new.size(2)] = new
    return buffer
