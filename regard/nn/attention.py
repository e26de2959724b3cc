"""Scaled dot-product attention, and one head of it."""

import math

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.dropout import dropout as drop
from regard.nn.masks import check_mask
from regard.nn.softmax import masked_softmax
from regard.nn.trace import Trace


def attend(
    query: Float[Tensor, "*B T K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S K"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*B T K"], Float[Tensor, "*B T S"]]:
    """softmax(Q Kᵀ / √K) V, and the weights (Vaswani et al. 2017, §3.2.1).

    Why √K: the dot product of two K-vectors of unit variance has variance K, and a softmax over
    scores that large is a hard choice with no gradient.
    """
    check_mask(mask)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # B H T S
    weights = masked_softmax(scores, mask)  # B H T S
    kept = drop(weights, dropout) if dropout > 0 else weights
    return kept @ value, weights  # B H T K


def attend_fast(
    query: Float[Tensor, "*B T K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S K"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    dropout: float = 0.0,
) -> Float[Tensor, "*B T K"]:
    """The same by torch's fused kernel, which never writes the weights down.

    On a CPU there is none that drops weights out.
    """
    if dropout > 0 and query.device.type == "cpu":
        return attend(query, key, value, mask, dropout=dropout)[0]
    check_mask(mask)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


class SingleHeadAttention(nn.Module):
    """softmax(x Wq (m Wk)ᵀ / √K) m Wv: one way of looking from x at the memory m.

    Multi-head attention is H of these side by side, joined and projected; this one is here to be
    read before it.
    """

    def __init__(self, d_model: int, d_head: int, *, bias: bool = True) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_head, bias=bias)
        self.key = nn.Linear(d_model, d_head, bias=bias)
        self.value = nn.Linear(d_model, d_head, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        *,
        mask: Bool[Tensor, "#B #T S"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T K"]:
        memory = x if memory is None else memory  # self-attention: x looks at itself
        output, weights = attend(self.query(x), self.key(memory), self.value(memory), mask)
        if trace is not None:
            trace.record(weights=weights, mask=mask, output=output)
        return output
