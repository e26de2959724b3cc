"""Filters: logits to logits, with −∞ at the tokens that sampling leaves out.

Log-probabilities are logits too, and a constant added to all logits changes nothing here.
"""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.config import Decode

Filter = Callable[[Float[Tensor, "R V"]], Float[Tensor, "R V"]]
"""Logits to logits: a token that is left out has −∞. The most probable token is never left out."""


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


def typical(logits: Float[Tensor, "R V"], mass: float) -> Float[Tensor, "R V"]:
    """The fewest that sum to τ, of those nearest to the entropy first (Meister et al. 2023, §4).

    Near: |−log p − H| is small, a token is about as surprising as tokens are here on average.
    """
    log_p = logits.log_softmax(dim=-1)
    distance = (-log_p - entropy(log_p)).abs()
    ordered, places = distance.sort(dim=-1)
    reached = log_p.gather(1, places).exp().cumsum(dim=-1)
    last = (reached < mass).sum(dim=-1, keepdim=True).clamp(max=logits.size(-1) - 1)
    return logits.masked_fill(distance > ordered.gather(1, last), -torch.inf)


def epsilon(logits: Float[Tensor, "R V"], least: float) -> Float[Tensor, "R V"]:
    """Those with a probability of at least ε (Hewitt et al. 2022, §4)."""
    return logits.masked_fill((logits.softmax(dim=-1) < least) & ~_best(logits), -torch.inf)


def eta(logits: Float[Tensor, "R V"], least: float) -> Float[Tensor, "R V"]:
    """Those with a probability of at least min(ε, √ε · exp(−H)) (Hewitt et al. 2022, §4).

    Where the next token is uncertain, the entropy H is high, and less probable tokens may follow.
    """
    log_p = logits.log_softmax(dim=-1)
    threshold = (least**0.5 * (-entropy(log_p)).exp()).clamp(max=least)
    return logits.masked_fill((log_p.exp() < threshold) & ~_best(logits), -torch.inf)


def top_n_sigma(logits: Float[Tensor, "R V"], n: float) -> Float[Tensor, "R V"]:
    """Those with a logit of at least max − n·σ (Tang et al. 2024, §3).

    σ is the standard deviation of the logits that no filter or rule has excluded. Both sides
    scale with 1/τ, so that the temperature does not change which tokens are left.
    """
    present = logits > -torch.inf
    count = present.sum(dim=-1, keepdim=True)
    mean = logits.where(present, 0).sum(dim=-1, keepdim=True) / count
    variance = (logits - mean).where(present, 0).square().sum(dim=-1, keepdim=True) / count
    least = logits.amax(dim=-1, keepdim=True) - n * variance.sqrt()
    return logits.masked_fill(logits < least, -torch.inf)


def entropy(log_p: Float[Tensor, "R V"]) -> Float[Tensor, "R 1"]:
    """H = −Σ p log p; 0 log 0 is 0."""
    return -(log_p.exp() * log_p).nansum(dim=-1, keepdim=True)


def _best(logits: Float[Tensor, "R V"]) -> Bool[Tensor, "R V"]:
    """Where the largest logit of each row is."""
    return logits >= logits.amax(dim=-1, keepdim=True)


FILTERS: dict[str, tuple[Callable[..., Tensor], float]] = {
    "temperature": (temperature, 1.0),
    "top_k": (top_k, 0),
    "top_p": (top_p, 1.0),
    "min_p": (min_p, 0.0),
    "typical": (typical, 1.0),
    "epsilon": (epsilon, 0.0),
    "eta": (eta, 0.0),
    "top_n_sigma": (top_n_sigma, 0.0),
}
"""Every filter by its key in `decode`, in the order in which they are applied, each to what the one
before it left; and the value of the key that leaves everything as it is."""


def filters(decode: Decode) -> list[Filter]:
    """The filters of a configuration, in the order in which they are applied."""
    return [
        _with(function, getattr(decode, key))
        for key, (function, neutral) in FILTERS.items()
        if getattr(decode, key) != neutral
    ]


def _with(function: Callable[..., Tensor], value: int | float) -> Filter:
    return lambda logits: function(logits, value)


def filtered(logits: Float[Tensor, "R V"], chosen: Iterable[Filter]) -> Float[Tensor, "R V"]:
    """What all of these filters leave."""
    for keep in chosen:
        logits = keep(logits)
    return logits
