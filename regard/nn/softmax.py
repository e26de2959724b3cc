"""Softmax, its logarithm, and softmax under a mask, written out."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def softmax(logits: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
    """exp(zᵢ) / Σⱼ exp(zⱼ), over the last axis.

    The largest logit is subtracted first. That cancels between numerator and denominator, and
    keeps exp from overflowing.
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
    """Softmax over the allowed entries only; a row that allows none is all zeros.

    Low precision is computed in float32: in bfloat16, with 8 bits, weights would not sum to 1.
    """
    low = scores.dtype in (torch.bfloat16, torch.float16)
    exact = scores.float() if low else scores
    if mask is None:
        return softmax(exact).to(scores.dtype)
    exact = exact.masked_fill(~mask, -torch.inf)
    # The largest score of an empty row is −∞, and −∞ − (−∞) is NaN: clamp it to the lowest float.
    peak = exact.amax(-1, keepdim=True).clamp(min=torch.finfo(exact.dtype).min)
    powers = torch.exp(exact - peak)  # 0 where blocked
    # Any other row contains exp(0) = 1, so the minimum of 1 changes only empty rows.
    weights = powers / powers.sum(-1, keepdim=True).clamp(min=1.0)
    return weights.to(scores.dtype)
