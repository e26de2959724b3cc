"""Masks: boolean, True = may attend, broadcastable to B H T S, combined with `&`."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

PADDING = 0


def padding_mask(tokens: Int[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Everyone may look at every position that holds a token, and nobody at the padding."""
    return (tokens != PADDING)[:, None, None, :]


def causal_mask(
    length: int, past: int = 0, *, device: torch.device | None = None
) -> Bool[Tensor, "T S"]:
    """Position t may look at positions up to itself: S = past + length, and s ≤ past + t.

    past is how many positions a cache already holds:

        causal_mask(3)     causal_mask(2, past=1)
        1 0 0              1 1 0
        1 1 0              1 1 1
        1 1 1
    """
    positions = torch.arange(past + length, device=device)
    return positions[None, :] <= positions[past:, None]


def check_mask(mask: Tensor | None) -> None:
    """Refuse a mask that is not boolean: 0 means "may attend" to some, "may not" to others."""
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(
            f"a mask must be boolean with True where attention is allowed, not {mask.dtype}; "
            f"write mask.bool() if 1 means allowed in it, or mask == 0 if it is added to scores"
        )
