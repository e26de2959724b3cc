"""Penalties: tokens that a text already has become less likely to come again."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NOTHING = -1
"""Stands on the left of short rows of tokens: it is the id of no token."""


def occurring(tokens: Int[Tensor, "R T"], vocab: int) -> Bool[Tensor, "R V"]:
    """Which tokens of the vocabulary each row has."""
    seen = torch.zeros(len(tokens), vocab + 1, dtype=torch.bool, device=tokens.device)
    return seen.scatter(1, tokens % (vocab + 1), True)[:, :vocab]  # NOTHING becomes the last


def repetition_penalty(
    logits: Float[Tensor, "R V"], seen: Bool[Tensor, "R V"], penalty: float
) -> Float[Tensor, "R V"]:
    """Logits of what was seen divided by θ if positive, times θ if not (Keskar et al. 2019, §4.1).

    The paper divides all of them, which would make a token of negative logit more likely.
    """
    penalised = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(seen, penalised, logits)


def presence_penalty(
    logits: Float[Tensor, "R V"], seen: Bool[Tensor, "R V"], penalty: float
) -> Float[Tensor, "R V"]:
    """Logits of what was seen, less a constant, however often it was seen."""
    return torch.where(seen, logits - penalty, logits)
