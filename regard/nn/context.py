"""Context: what rows of different lengths have read so far, in one batch."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.nn.cache import LayerCache
from regard.nn.masks import padding_mask


@dataclass(frozen=True)
class Context:
    """The caches of a decoder-only model, and which of their slots hold a token of each row.

    Prompts are padded on the right when they are read, at positions 0, 1, 2, …; causality hides
    the padding from every real token. What follows is appended for all rows at once: a row goes on
    at its own position, and a mask hides the padding between its prompt and the rest:

        slot        0 1 2 3 4        0 1 2 3 4
        row 0       a b c x y        1 1 1 1 1     positions of x, y: 3, 4
        row 1       d · · x y        1 0 0 1 1     positions of x, y: 1, 2
    """

    caches: list[LayerCache]
    lengths: Int[Tensor, "B"]
    """How many tokens each row has read: the position of its next one."""
    real: Bool[Tensor, "B S"]
    """True at the slots that hold a token; a slot is a place in the caches."""
    tokens: Int[Tensor, "B S"]
    """What was read into each slot."""
    padded: bool
    """Whether some slot may hold no token: known here, so that no step has to look at them all."""

    @classmethod
    def of_prompt(
        cls,
        caches: list[LayerCache],
        prompt: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
    ) -> "Context":
        """After a prompt has been read into the caches; lengths None: no padding in it."""
        B, L = prompt.shape
        padded = lengths is not None and bool((lengths < L).any())
        if lengths is None:
            lengths = torch.full((B,), L, device=prompt.device)
        return cls(caches, lengths, padding_mask(lengths, L)[:, 0, 0], prompt, padded)

    def positions(
        self, count: int = 1, lengths: Int[Tensor, "B"] | None = None
    ) -> Int[Tensor, "B L"]:
        """Where the next `count` tokens of each row stand; lengths: as in `grown`."""
        if count == 1 and lengths is None:
            return self.lengths[:, None]
        places = torch.arange(count, device=self.lengths.device)[None]
        if lengths is not None:  # padding stands with the token before it, where a position is
            places = places.minimum(lengths[:, None] - 1)
        return (self.lengths[:, None] + places).clamp(min=0)

    def grown(
        self, tokens: Int[Tensor, "B L"], lengths: Int[Tensor, "B"] | None = None
    ) -> "Context":
        """With slots for the next tokens of every row; its `mask` is what they see.

        lengths: how many tokens of each row are real, the first ones; None: all.
        """
        if lengths is None:
            new, count = torch.ones_like(tokens, dtype=torch.bool), self.lengths + tokens.size(1)
        else:
            new, count = padding_mask(lengths, tokens.size(1))[:, 0, 0], self.lengths + lengths
        return Context(
            self.caches,
            count,
            torch.cat([self.real, new], dim=1),
            torch.cat([self.tokens, tokens], dim=1),
            self.padded or (lengths is not None and not bool(new.all())),
        )

    def back(self, counts: Int[Tensor, "B"]) -> "Context":
        """Without the last counts[b] tokens of row b; this one is not to be used any more."""
        lengths = self.lengths - counts
        real = self.real & (self.real.cumsum(dim=1) <= lengths[:, None])
        used = real.any(dim=0).nonzero()
        slots = int(used[-1]) + 1 if len(used) else 0
        caches = [cache.cut(slots) for cache in self.caches]
        kept = real[:, :slots]
        return Context(caches, lengths, kept, self.tokens[:, :slots], not bool(kept.all()))

    @property
    def slots(self) -> int:
        """S: no row has read more tokens than that."""
        return self.real.size(1)

    def rows(self) -> list[Int[Tensor, "N"]]:
        """The tokens that each row has read."""
        return [tokens[real] for tokens, real in zip(self.tokens, self.real, strict=True)]

    @property
    def mask(self) -> Bool[Tensor, "B 1 1 S"] | None:
        """The key mask: True at real tokens; None where there is nothing else."""
        return self.real[:, None, None, :] if self.padded else None

    def select(self, rows: Int[Tensor, "N"]) -> "Context":
        """These rows: some dropped, some repeated, in this order."""
        caches = [cache.select(rows) for cache in self.caches]
        real, tokens = self.real[rows], self.tokens[rows]
        return Context(caches, self.lengths[rows], real, tokens, self.padded)
