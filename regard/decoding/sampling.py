"""Sampling: the next token drawn by its probability, some of the less likely left out."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import Decode

Filter = Callable[[Float[Tensor, "R V"]], Float[Tensor, "R V"]]
"""Scores to scores: what is left out has a score of −∞."""


def temperature(scores: Float[Tensor, "R V"], value: float) -> Float[Tensor, "R V"]:
    """scores / τ: below 1 the likely become likelier, above 1 all become more alike."""
    return scores / value


def top_k(scores: Float[Tensor, "R V"], count: int) -> Float[Tensor, "R V"]:
    """The k best, and those as good as the last of them (Fan et al. 2018)."""
    least = scores.topk(min(count, scores.size(-1))).values[:, -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def top_p(scores: Float[Tensor, "R V"], mass: float) -> Float[Tensor, "R V"]:
    """The fewest whose probabilities sum to p or more (Holtzman et al. 2020, §3.1)."""
    ordered, places = scores.sort(dim=-1, descending=True)
    chances = ordered.softmax(dim=-1)
    before = chances.cumsum(dim=-1) - chances  # of all that are likelier
    dropped = torch.zeros_like(scores, dtype=torch.bool).scatter(1, places, before >= mass)
    return scores.masked_fill(dropped, -torch.inf)


def min_p(scores: Float[Tensor, "R V"], share: float) -> Float[Tensor, "R V"]:
    """Those at least so likely, as a share of the likeliest (Nguyen et al. 2024, §3)."""
    chances = scores.softmax(dim=-1)
    return scores.masked_fill(chances < share * chances.amax(-1, keepdim=True), -torch.inf)


def filters(decode: Decode) -> list[Filter]:
    """The filters that a configuration asks for, in the order in which they are applied."""
    found: list[Filter] = []
    if decode.temperature != 1:
        found.append(lambda scores: temperature(scores, decode.temperature))
    if decode.top_k:
        found.append(lambda scores: top_k(scores, decode.top_k))
    if decode.top_p < 1:
        found.append(lambda scores: top_p(scores, decode.top_p))
    if decode.min_p:
        found.append(lambda scores: min_p(scores, decode.min_p))
    return found


class Sampler:
    """Draws a token for every row, each row from randomness of its own.

    argmaxᵢ (scoreᵢ − log(−log uᵢ)) is a draw by softmax(scores) (Gumbel 1954): what a row draws
    depends on its own seed, and not on the rows beside it.
    """

    def __init__(self, decode: Decode, seeds: Sequence[int]) -> None:
        self._filters = filters(decode)
        # torch looks at 32 bits of a seed alone: all of it is mixed into those.
        mixed = (np.random.SeedSequence(seed).generate_state(1)[0] for seed in seeds)
        self._generators = [torch.Generator().manual_seed(int(seed)) for seed in mixed]

    def __call__(self, scores: Float[Tensor, "R V"], rows: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
        """rows: which of the seeds each row of scores has."""
        for one in self._filters:
            scores = one(scores)
        uniform = torch.stack(
            [torch.rand(scores.size(1), generator=self._generators[row]) for row in rows.tolist()]
        ).to(scores.device)
        return (scores - (-uniform.log()).log()).argmax(dim=-1)
