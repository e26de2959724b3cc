"""What may be generated next: rules that exclude tokens, however probable they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import Decode


def repeating(generated: Int[Tensor, "R T"], n: int, vocab: int) -> Bool[Tensor, "R V"]:
    """Which next tokens would complete an n-gram that a row already holds."""
    R, T = generated.shape
    repeats = torch.zeros(R, vocab, dtype=torch.bool, device=generated.device)
    if n < 1 or n > T:
        return repeats
    ngrams = generated.unfold(1, n, 1)  # R T−n+1 n
    last = generated[:, T - n + 1 :]  # R n−1: what the next token would be added to
    same = (ngrams[:, :, :-1] == last[:, None]).all(dim=-1)  # R T−n+1
    rows, places = same.nonzero(as_tuple=True)
    repeats[rows, ngrams[rows, places, -1]] = True
    return repeats


@dataclass(frozen=True)
class Rules:
    """The rules of a search over some sources."""

    end: int
    shortest: Int[Tensor, "B"] | None = None
    """The fewest tokens of each source's output, `end` not counted."""
    longest: Int[Tensor, "B"] | None = None
    """The most tokens of each source's output, `end` not counted: then it must end."""
    no_repeat_ngram: int = 0
    """No n-gram of this many tokens is generated twice; 0 allows all."""
    prefixes: Sequence[Sequence[int]] | None = None
    """What each source's output begins with."""

    def __call__(
        self,
        log_p: Float[Tensor, "R V"],
        generated: Int[Tensor, "R T"],
        sources: Int[Tensor, "R"],
    ) -> Float[Tensor, "R V"]:
        """log p with −∞ where a rule forbids the token, after what was generated in each row.

        sources: the source that each row belongs to.
        """
        length = generated.size(1)
        forbidden = repeating(generated, self.no_repeat_ngram, log_p.size(1))  # R V
        if self.shortest is not None:
            forbidden[:, self.end] |= length < self.shortest[sources]
        if self.longest is not None:
            over = length >= self.longest[sources]
            forbidden |= over[:, None]
            forbidden[:, self.end] &= ~over
        nothing = log_p.masked_fill(forbidden, -torch.inf).amax(dim=1) == -torch.inf
        forbidden[:, self.end] &= ~nothing  # where nothing else is left, the output may end
        for row, source in enumerate(sources.tolist()):
            prefix = () if self.prefixes is None else self.prefixes[source]
            if length < len(prefix):
                forbidden[row] = True
                forbidden[row, prefix[length]] = False
        return log_p.masked_fill(forbidden, -torch.inf)

    def most_tokens(self, limit: int, source: int) -> int:
        """The most tokens that the output of a source can have, `end` counted."""
        return limit if self.longest is None else min(limit, int(self.longest[source]) + 1)


def make_rules(
    decode: Decode,
    lengths: Int[Tensor, "B"] | None,
    *,
    end: int,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> Rules | None:
    """The rules of a configuration, for sources of these lengths; None if it has none."""
    least, most = decode.min_length_ratio, decode.max_length_ratio
    if not (least or most or decode.no_repeat_ngram or prefixes):
        return None
    if (least or most) and lengths is None:
        raise ValueError("length ratios need the lengths of the sources, and none were given")
    longest = shortest = None
    if lengths is not None and least:
        shortest = (lengths * least).floor().long()
    if lengths is not None and most:
        longest = (lengths * most).ceil().long().clamp(min=1)
        if prefixes is not None:  # a prefix is generated whole, however long
            longest = longest.maximum(longest.new_tensor([len(prefix) for prefix in prefixes]))
    return Rules(end, shortest, longest, decode.no_repeat_ngram, prefixes)
