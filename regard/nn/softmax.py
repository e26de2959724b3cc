"""Softmax, its logarithm, and softmax under a mask, written out."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def softmax(logits: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
    """exp(zᵢ) / Σⱼ exp(zⱼ), over the last axis.

    The largest logit is subtracted first: that changes nothing, since it stands in numerator and
    denominator, and keeps exp from overflowing.
    """
    powers = torch.exp(logits - logits.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def log_softmax(logits: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
    """zᵢ − log Σⱼ exp(zⱼ), over the last axis."""
    shifted = logits - logits.amax(-1, keepdim=True)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()


def masked_softmax(
    scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*B T S"]:
    """Softmax over the allowed entries alone; a row that allows none is all zeros.

    Computed in float32 under low precision: weights of bfloat16 have 8 bits and no longer sum to 1.
    """
    low = scores.dtype in (torch.bfloat16, torch.float16)
    exact = scores.float() if low else scores
    if mask is None:
        return softmax(exact).to(scores.dtype)
    exact = exact.masked_fill(~mask, -torch.inf)
    # An empty row's largest score is −∞, and −∞ − (−∞) is NaN: stop just above it.
    peak = exact.amax(-1, keepdim=True).clamp(min=torch.finfo(exact.dtype).min)
    powers = torch.exp(exact - peak)  # 0 where blocked
    # A row with anything in it holds exp(0) = 1, so the floor of 1 touches the empty rows alone.
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1.0)
    return weights.to(scores.dtype)
