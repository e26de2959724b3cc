"""Multi-head attention, and its two uses: self-attention and cross-attention."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.attention import attend, attend_fast
from regard.nn.cache import KVCache
from regard.nn.masks import attention_mask
from regard.nn.norms import Norm
from regard.nn.positions import RotaryPositions
from regard.nn.stacked_linear import StackedLinear
from regard.nn.trace import Trace

AXES = {"query": "BHTK", "key": "BHSK", "value": "BHSK", "mask": "BHTS", "weights": "BHTS"}
"""The axes of what attention records."""


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_H) Wᵒ, headᵢ = softmax(Q Wᵢq (K Wᵢk)ᵀ / √K) V Wᵢv (Vaswani 2017, §3.2.2).

        query ── Wq ── split into H heads of K ──┐
        key ──── Wk ── split into G heads of K ──┤ attend ── join ── Wᵒ ── output
        value ── Wv ── split into G heads of K ──┘

    Wq, Wk and Wv of all heads stand in one matrix, in this order, so that self-attention projects
    with a single product. fast=False, or a trace, takes the written-out path.

    d_head: K, if different from D / H. n_kv_heads: G, if different from H: each key and value head
    serves H / G query heads (grouped-query attention). query_norm, key_norm: norms over K of every
    head's queries and keys, which bound the attention scores (Henry et al. 2020). window: each
    position looks at the last `window` positions at most, itself included.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_head: int | None = None,
        n_kv_heads: int | None = None,
        query_norm: Norm | None = None,
        key_norm: Norm | None = None,
        bias: bool = True,
        window: int | None = None,
        dropout: float = 0.0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        if n_heads < 1 or (d_head is None and d_model % n_heads != 0):
            raise ValueError(
                f"d_model={d_model} does not divide into n_heads={n_heads} equal heads"
            )
        self.n_heads = n_heads
        self.n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if self.n_kv_heads < 1 or n_heads % self.n_kv_heads != 0:
            raise ValueError(f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}")
        if window is not None and window < 1:
            raise ValueError(f"window={window} is less than 1: a position sees itself at least")
        self.d_head = d_model // n_heads if d_head is None else d_head
        self.window = window
        self.dropout = dropout
        self.fast = fast
        shared = self.n_kv_heads * self.d_head
        self.projection = StackedLinear(d_model, (n_heads * self.d_head, shared, shared), bias=bias)
        self.output = nn.Linear(n_heads * self.d_head, d_model, bias=bias)
        self.query_norm = query_norm
        self.key_norm = key_norm

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Attention of a query over any keys and values: the general form."""
        return self._attend(
            self._normed(self.query_norm, self._split(self.projection(query, first=0, end=1))),
            self._normed(self.key_norm, self._split(self.projection(key, first=1, end=2))),
            self._split(self.projection(value, first=2, end=3)),
            mask=mask,
            is_causal=is_causal,
            trace=trace,
        )

    def _attend(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B G S K"],
        value: Float[Tensor, "B G S K"],
        *,
        mask: Bool[Tensor, "..."] | None,
        is_causal: bool = False,
        trace: Trace | None,
    ) -> Float[Tensor, "B T D"]:
        """Every head attends; their outputs are joined and projected."""
        dropout = self.dropout if self.training else 0.0
        fast = self.fast and trace is None
        if self.window is not None or not fast:
            mask = attention_mask(
                mask,
                queries=query.size(2),
                keys=key.size(2),
                is_causal=is_causal,
                window=self.window,
                device=query.device,
            )
            is_causal = False  # the mask says it
        if fast:
            heads = attend_fast(query, key, value, mask, is_causal=is_causal, dropout=dropout)
            return self.output(_join(heads))
        if trace is not None:
            mask = without_edges(mask, query, key, trace)
        heads, weights = attend(query, key, value, mask, dropout=dropout)
        if trace is not None and (off := trace.switches.heads(trace.path, self.n_heads)):
            heads = heads.index_fill(1, torch.tensor(off, device=heads.device), 0.0)
        output = self.output(_join(heads))
        if trace is not None:
            trace.record(
                AXES,
                query=query,
                key=key,
                value=value,
                mask=mask,
                weights=weights,
                output=output,
            )
        return output

    def _split(self, x: Float[Tensor, "B L P"]) -> Float[Tensor, "B N L K"]:
        """Head h takes the h-th K of the numbers of each position."""
        B, L, P = x.shape  # the number of heads from P, not by -1: B may be 0
        return x.view(B, L, P // self.d_head, self.d_head).transpose(1, 2)

    @staticmethod
    def _normed(norm: Norm | None, x: Float[Tensor, "B N L K"]) -> Float[Tensor, "B N L K"]:
        return x if norm is None else norm(x)


class SelfAttention(MultiHeadAttention):
    """Multi-head attention in which query, key and value are all the same sequence.

    With rotary positions, queries and keys are rotated by where they stand.
    """

    def __init__(
        self, d_model: int, n_heads: int, *, rotary: RotaryPositions | None = None, **options: Any
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.rotary = rotary

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        positions: Int[Tensor, "#B T"] | None = None,
        cache: KVCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """With a cache, x is what is new, and it looks at all that went before as well.

        positions: where each token of x stands in its row; None: on from what the cache holds.
        """
        H, G = self.n_heads, self.n_kv_heads
        heads = self._split(self.projection(x))  # B H+2G T K
        queries_and_keys, value = heads.split([H + G, G], dim=1)
        if self.query_norm is not None or self.key_norm is not None:
            query, key = queries_and_keys.split([H, G], dim=1)
            queries_and_keys = torch.cat(
                [self._normed(self.query_norm, query), self._normed(self.key_norm, key)], dim=1
            )
        if self.rotary is not None:
            if positions is None:
                past = 0 if cache is None else cache.length
                positions = torch.arange(past, past + x.size(1), device=x.device)[None]
            queries_and_keys = self.rotary(queries_and_keys, positions)
        query, key = queries_and_keys.split([H, G], dim=1)
        if cache is not None:
            key, value = cache.append(key, value)
        return self._attend(query, key, value, mask=mask, is_causal=is_causal, trace=trace)


class CrossAttention(MultiHeadAttention):
    """Multi-head attention from one sequence, the query, over another, the memory."""

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "M S D"] | KVCache,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The memory may be given as the keys and values that `remember` made of it.

        It may have fewer rows than x, an equal share of x's rows reading each: neighbours are then
        treated as positions of one row, for positions do not see each other here.
        """
        cache = memory if isinstance(memory, KVCache) else self.remember(memory)
        key, value = cache.key, cache.value
        (B, T, D), M = x.shape, key.size(0)
        if B % M if M else B:
            raise ValueError(f"{B} rows cannot share {M} memories equally")
        shared = x.view(M, B // M * T, D) if M else x  # without rows there is nothing to share
        query = self._split(self.projection(shared, first=0, end=1))
        query = self._normed(self.query_norm, query)
        if trace is not None:
            trace = trace.over(trace.memory)
        return self._attend(query, key, value, mask=mask, trace=trace).view(B, T, D)

    def remember(self, memory: Float[Tensor, "B S D"]) -> KVCache:
        """The keys and values of a memory, projected once for all steps of decoding."""
        key, value = self.projection(memory, first=1, end=3).chunk(2, dim=-1)  # B S GK each
        cache = KVCache()
        cache.append(self._normed(self.key_norm, self._split(key)), self._split(value))
        return cache


def without_edges(
    mask: Bool[Tensor, "..."] | None,
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B G S K"],
    trace: Trace,
) -> Bool[Tensor, "..."] | None:
    """A mask that hides the edges which are turned off as well."""
    H, T, S = query.size(1), query.size(2), key.size(2)
    kept = trace.switches.edges(trace.path, heads=H, queries=T, keys=S, first=trace.first)
    if kept is None:
        return mask
    kept = kept.to(query.device)
    return kept[None] if mask is None else mask & kept


def _join(heads: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T P"]:
    """The heads side by side again."""
    return heads.transpose(1, 2).flatten(2)
