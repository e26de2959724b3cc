"""Pooling: from one vector per step to one vector per sequence."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.softmax import masked_softmax
from regard.nn.trace import Trace

PoolingKind = Literal["final", "mean", "max", "attention"]
KINDS: tuple[PoolingKind, ...] = get_args(PoolingKind)


class Pooling(nn.Module):
    """One vector from the outputs h₁ … h_L of a sequence and its final state.

        final        the state after the last step
        mean         Σ hₜ / L
        max          the largest value of each component over the steps
        attention    Σ αₜ hₜ with α = softmax(vᵀ tanh(W hₜ))    (Yang et al. 2016, §2.2)

    Padding is left out. An empty sequence pools to zeros, and to its initial state for `final`.
    """

    def __init__(self, kind: PoolingKind, d_model: int) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"pooling={kind!r} is not one of {', '.join(KINDS)}")
        self.kind: PoolingKind = kind
        if kind == "attention":
            self.query = nn.Sequential(
                nn.Linear(d_model, d_model), nn.Tanh(), nn.Linear(d_model, 1, bias=False)
            )

    def forward(
        self,
        outputs: Float[Tensor, "B L D"],
        final: Float[Tensor, "B D"],
        mask: Bool[Tensor, "B L"],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B D"]:
        """mask: True where a step is real."""
        if self.kind == "final":
            return final
        real = mask[:, :, None]  # B L 1
        if self.kind == "mean":
            return (outputs * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        if self.kind == "max":
            lowest = torch.finfo(outputs.dtype).min
            largest = outputs.masked_fill(~real, lowest).amax(dim=1)  # B D
            return largest * real.any(dim=1)
        weights = masked_softmax(self.query(outputs).transpose(1, 2), mask[:, None])  # B 1 L
        if trace is not None:
            trace.over(trace.rows, rows="output").record(
                {"weights": "BHTS", "mask": "BHTS"},
                weights=weights[:, None],
                mask=mask[:, None, None],
            )
        return (weights @ outputs)[:, 0]
