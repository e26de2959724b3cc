"""Scaled dot-product attention, and one head of it."""

import math

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.dropout import dropout as drop
from regard.nn.masks import attention_mask
from regard.nn.softmax import masked_softmax
from regard.nn.trace import Trace


def attend(
    query: Float[Tensor, "*B T K"],
    key: Float[Tensor, "*G S K"],
    value: Float[Tensor, "*G S K"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*B T K"], Float[Tensor, "*B T S"]]:
    """softmax(Q Kᵀ / √K) V, and the weights (Vaswani et al. 2017, §3.2.1).

    Why √K: the dot product of two K-vectors of unit variance has variance K, and a softmax over
    scores that large is a hard choice with no gradient.

    is_causal: query t looks at keys s ≤ S − T + t, its own position and those before it.
    Where there are fewer key heads than query heads, neighbouring query heads share one
    (grouped-query attention, Ainslie et al. 2023).
    """
    T, S = query.size(-2), key.size(-2)
    mask = attention_mask(mask, queries=T, keys=S, is_causal=is_causal, device=query.device)
    key, value = _for_each_head(key, query), _for_each_head(value, query)  # B H S K
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # B H T S
    weights = masked_softmax(scores, mask)  # B H T S
    kept = drop(weights, dropout) if dropout > 0 else weights
    return kept @ value, weights  # B H T K


def _for_each_head(x: Float[Tensor, "*G S K"], query: Float[Tensor, "*B T K"]) -> Tensor:
    """Keys or values repeated, so that every head of the query has its own."""
    if x.dim() < 3 or x.size(-3) == query.size(-3):
        return x
    return x.repeat_interleave(query.size(-3) // x.size(-3), dim=-3)


def attend_fast(
    query: Float[Tensor, "*B T K"],
    key: Float[Tensor, "*G S K"],
    value: Float[Tensor, "*G S K"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "*B T K"]:
    """The same by torch's fused kernel, which never stores the weights.

    Nor a mask of T × S where causality is all that is wanted: memory grows with T + S. On a CPU no
    fused kernel drops weights out, so that dropout takes the written-out path.
    """
    if dropout > 0 and query.device.type == "cpu":
        return attend(query, key, value, mask, is_causal=is_causal, dropout=dropout)[0]
    T, S = query.size(-2), key.size(-2)
    # The kernel's own is_causal is s ≤ t, which is ours where there is no past. Said by branches,
    # for in a compiled graph the comparison of two sizes is a symbol, which the kernel refuses.
    if is_causal and T > 1 and mask is None and T == S:
        by_kernel = True
    else:
        by_kernel = False
        mask = attention_mask(mask, queries=T, keys=S, is_causal=is_causal, device=query.device)
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=by_kernel,
        enable_gqa=query.dim() == 4 and query.size(1) != key.size(1),
    )


class SingleHeadAttention(nn.Module):
    """softmax(x Wq (m Wk)ᵀ / √K) m Wv: attention from x over a memory m, with one head.

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
            trace.record({"weights": "BTS"}, weights=weights, mask=mask, output=output)
        return output
