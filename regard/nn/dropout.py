"""Dropout: in training some values become zero, and the others are scaled up to compensate."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.randomness import generator

LEVELS = 2**16
"""How many values 16 random bits have: the rate is rounded to a multiple of 1/LEVELS."""


def sampled(count: int) -> Tensor:
    """Random numbers of 64 bits."""
    return torch.empty(count, dtype=torch.int64).random_(-(2**63), None, generator=generator())


@torch.library.custom_op(
    "regard::sampled", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,)
)
def _sampled_in_graph(count: int) -> Tensor:
    """The same as one operation of a compiled graph, which `random_` would break in two."""
    return sampled(count)


@_sampled_in_graph.register_fake
def _(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.int64)


def dropout(x: Float[Tensor, "*B"], rate: float) -> Float[Tensor, "*B"]:
    """x ⊙ m / (1 − rate), every m being 0 with probability `rate` and 1 otherwise.

    Srivastava et al. 2014, §4, but divided in training instead of multiplied in prediction. On a
    CPU torch samples one float per value, in one thread, which takes a tenth of an update; here
    four values share the 64 bits of one sample.
    """
    if x.device.type != "cpu":
        return F.dropout(x, rate)
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    count = (x.numel() + 3) // 4
    samples = _sampled_in_graph(count) if torch.compiler.is_compiling() else sampled(count)
    levels = samples.view(torch.int16)[: x.numel()].view(x.shape)  # −LEVELS/2 … LEVELS/2 − 1
    kept = (levels >= dropped - LEVELS // 2).to(x.dtype)
    return x * kept.mul_(LEVELS / (LEVELS - dropped))


class Dropout(nn.Module):
    """Dropout in training; the identity otherwise."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"dropout={rate} must be at least 0 and less than 1")
        self.rate = rate

    def forward(self, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        return dropout(x, self.rate) if self.training and self.rate > 0 else x
