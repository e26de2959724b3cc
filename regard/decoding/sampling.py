"""Sampling: the next token chosen at random by its probability, unlikely ones left out."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import Decode

Filter = Callable[[Float[Tensor, "R V"]], Float[Tensor, "R V"]]
"""Logits to logits: a token that is left out has −∞. Log-probabilities are logits too."""


def temperature(logits: Float[Tensor, "R V"], value: float) -> Float[Tensor, "R V"]:
    """logits / τ: below 1 likely tokens become likelier, above 1 all become more alike."""
    return logits / value


def top_k(logits: Float[Tensor, "R V"], count: int) -> Float[Tensor, "R V"]:
    """The k best, and those as good as the last of them (Fan et al. 2018)."""
    least = logits.topk(min(count, logits.size(-1))).values[:, -1:]
    return logits.masked_fill(logits < least, -torch.inf)


def top_p(logits: Float[Tensor, "R V"], mass: float) -> Float[Tensor, "R V"]:
    """The fewest whose probabilities sum to p or more (Holtzman et al. 2020, §3.1)."""
    ordered, places = logits.sort(dim=-1, descending=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # of all that are likelier
    dropped = torch.zeros_like(logits, dtype=torch.bool).scatter(1, places, before >= mass)
    return logits.masked_fill(dropped, -torch.inf)


def min_p(logits: Float[Tensor, "R V"], fraction: float) -> Float[Tensor, "R V"]:
    """Those with at least this fraction of the top probability (Nguyen et al. 2024, §3)."""
    probabilities = logits.softmax(dim=-1)
    least = fraction * probabilities.amax(-1, keepdim=True)
    return logits.masked_fill(probabilities < least, -torch.inf)


def filters(decode: Decode) -> list[Filter]:
    """The filters of a configuration, in the order in which they are applied."""
    chosen: list[Filter] = []
    if decode.temperature != 1:
        chosen.append(lambda logits: temperature(logits, decode.temperature))
    if decode.top_k:
        chosen.append(lambda logits: top_k(logits, decode.top_k))
    if decode.top_p < 1:
        chosen.append(lambda logits: top_p(logits, decode.top_p))
    if decode.min_p:
        chosen.append(lambda logits: min_p(logits, decode.min_p))
    return chosen


class Sampler:
    """Samples a token for every row, each row from randomness of its own.

    argmaxᵢ (logitᵢ − log(−log uᵢ)) is a sample of softmax(logits) (Gumbel 1954): what a row samples
    depends on its own seed, and not on the rows beside it.
    """

    def __init__(self, decode: Decode, seeds: Sequence[int]) -> None:
        self._filters = filters(decode)
        # torch looks at 32 bits of a seed alone: all of it is mixed into those.
        mixed = (np.random.SeedSequence(seed).generate_state(1)[0] for seed in seeds)
        self._generators = [torch.Generator().manual_seed(int(seed)) for seed in mixed]

    def __call__(self, logits: Float[Tensor, "R V"], rows: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
        """One token per row; rows: which of the seeds each row has."""
        for keep in self._filters:
            logits = keep(logits)
        uniform = torch.stack(
            [torch.rand(logits.size(1), generator=self._generators[row]) for row in rows.tolist()]
        ).to(logits.device)
        return (logits - (-uniform.log()).log()).argmax(dim=-1)
