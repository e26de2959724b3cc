"""What may be written next: rules that leave some tokens no chance, whatever their score."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import Decode


def repeating(written: Int[Tensor, "R T"], n: int, vocab: int) -> Bool[Tensor, "R V"]:
    """Which next tokens would complete a stretch of n that a row already holds."""
    R, T = written.shape
    found = torch.zeros(R, vocab, dtype=torch.bool, device=written.device)
    if n < 1 or n > T:
        return found
    stretches = written.unfold(1, n, 1)  # R T−n+1 n
    last = written[:, T - n + 1 :]  # R n−1: what the next token would be added to
    same = (stretches[:, :, :-1] == last[:, None]).all(dim=-1)  # R T−n+1
    rows, places = same.nonzero(as_tuple=True)
    found[rows, stretches[rows, places, -1]] = True
    return found


@dataclass(frozen=True)
class Rules:
    """The rules of a search over some sources."""

    end: int
    shortest: Int[Tensor, "B"] | None = None
    """Tokens that each source's output has at least, `end` not counted."""
    longest: Int[Tensor, "B"] | None = None
    """Tokens that it has at most, `end` not counted: then it must end."""
    no_repeat_ngram: int = 0
    """No stretch of so many tokens comes twice; 0: any may."""
    prefixes: Sequence[Sequence[int]] | None = None
    """What each source's output begins with."""

    def __call__(
        self, scores: Float[Tensor, "R V"], written: Int[Tensor, "R T"], rows: Int[Tensor, "R"]
    ) -> Float[Tensor, "R V"]:
        """The scores after what was written in each row, for the source that it belongs to."""
        length = written.size(1)
        forbidden = repeating(written, self.no_repeat_ngram, scores.size(1))  # R V
        if self.shortest is not None:
            forbidden[:, self.end] |= length < self.shortest[rows]
        if self.longest is not None:
            over = length >= self.longest[rows]
            forbidden |= over[:, None]
            forbidden[:, self.end] &= ~over
        nothing = scores.masked_fill(forbidden, -torch.inf).amax(dim=1) == -torch.inf
        forbidden[:, self.end] &= ~nothing  # if nothing is left, to end is
        for row, source in enumerate(rows.tolist()):
            prefix = () if self.prefixes is None else self.prefixes[source]
            if length < len(prefix):
                forbidden[row] = True
                forbidden[row, prefix[length]] = False
        return scores.masked_fill(forbidden, -torch.inf)

    def most_tokens(self, limit: int, source: int) -> int:
        """The most tokens that the output of a source can have, `end` counted."""
        return limit if self.longest is None else min(limit, int(self.longest[source]) + 1)


def make_rules(
    decode: Decode,
    lengths: Int[Tensor, "B"],
    *,
    end: int,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> Rules | None:
    """The rules that a configuration asks for, for sources of these lengths, if it asks for any."""
    least, most = decode.min_length_ratio, decode.max_length_ratio
    if not (least or most or decode.no_repeat_ngram or prefixes):
        return None
    longest = (lengths * most).ceil().long().clamp(min=1) if most else None
    if longest is not None and prefixes is not None:  # a prefix is written whole, however long
        longest = longest.maximum(longest.new_tensor([len(prefix) for prefix in prefixes]))
    return Rules(
        end,
        (lengths * least).floor().long() if least else None,
        longest,
        decode.no_repeat_ngram,
        prefixes,
    )
