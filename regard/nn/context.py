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

    @classmethod
    def of_prompt(
        cls,
        caches: list[LayerCache],
        prompt: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
    ) -> "Context":
        """After a prompt has been read into the caches; lengths None: no padding in it."""
        B, L = prompt.shape
        if lengths is None:
            lengths = torch.full((B,), L, device=prompt.device)
        return cls(caches, lengths, padding_mask(lengths, L)[:, 0, 0], prompt)

    @property
    def positions(self) -> Int[Tensor, "B 1"]:
        """Where the next token of each row stands."""
        return self.lengths[:, None]

    def grown(self, tokens: Int[Tensor, "B"]) -> "Context":
        """With one more slot, for the next token of every row; its `mask` is what that sees."""
        one = torch.ones_like(tokens[:, None], dtype=torch.bool)
        return Context(
            self.caches,
            self.lengths + 1,
            torch.cat([self.real, one], dim=1),
            torch.cat([self.tokens, tokens[:, None]], dim=1),
        )

    @property
    def slots(self) -> int:
        """S: no row has read more tokens than that."""
        return self.real.size(1)

    def rows(self) -> list[Int[Tensor, "N"]]:
        """The tokens that each row has read."""
        return [tokens[real] for tokens, real in zip(self.tokens, self.real, strict=True)]

    @property
    def mask(self) -> Bool[Tensor, "B 1 1 S"]:
        """The key mask: True at real tokens."""
        return self.real[:, None, None, :]

    def select(self, rows: Int[Tensor, "N"]) -> "Context":
        """These rows: some dropped, some repeated, in this order."""
        caches = [cache.select(rows) for cache in self.caches]
        return Context(caches, self.lengths[rows], self.real[rows], self.tokens[rows])
