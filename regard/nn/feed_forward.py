"""The position-wise feed-forward network."""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.trace import Trace

Activation = Literal["relu", "gelu"]


def relu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """max(0, x)."""
    return x.clamp(min=0)


def gelu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """x Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016)."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


REFERENCE: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu}
FAST: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """act(x W₁ + b₁) W₂ + b₂, at each position by itself (Vaswani et al. 2017, §3.3)."""

    def __init__(
        self, d_model: int, d_ff: int, *, activation: Activation = "relu", fast: bool = True
    ) -> None:
        super().__init__()
        if activation not in REFERENCE:
            raise ValueError(f"activation={activation!r} is not one of {', '.join(REFERENCE)}")
        self.activation = activation
        self.fast = fast
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(
        self, x: Float[Tensor, "B L D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B L D"]:
        activations = FAST if self.fast and trace is None else REFERENCE
        hidden = activations[self.activation](self.inner(x))  # B L F
        output = self.outer(hidden)
        if trace is not None:
            trace.record(hidden=hidden, output=output)
        return output
