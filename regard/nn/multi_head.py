"""Multi-head attention, and its two uses: self-attention and cross-attention."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.attention import attend, attend_fast
from regard.nn.blocks import BlockLinear
from regard.nn.cache import KVCache
from regard.nn.positions import RotaryPositions
from regard.nn.trace import Trace


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_H) Wᵒ, headᵢ = softmax(Q Wᵢq (K Wᵢk)ᵀ / √K) V Wᵢv (Vaswani 2017, §3.2.2).

        query ── Wq ──┐
        key ──── Wk ──┤ split D into H heads of K ── attend ── join ── Wᵒ ── output
        value ── Wv ──┘

    Wq, Wk and Wv of all heads stand in one matrix (3D × D), in this order, so that self-attention
    projects with a single product. fast=False, or a trace, takes the written-out path.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads != 0:
            raise ValueError(
                f"d_model={d_model} does not divide into n_heads={n_heads} equal heads"
            )
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.dropout = dropout
        self.fast = fast
        self.projection = BlockLinear(d_model, 3, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Attention of a query over any keys and values: the general form."""
        return self._attend(
            self._split(self.projection(query, first=0, end=1)),
            self._split(self.projection(key, first=1, end=2)),
            self._split(self.projection(value, first=2, end=3)),
            mask=mask,
            trace=trace,
        )

    def _attend(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S K"],
        *,
        mask: Bool[Tensor, "..."] | None,
        trace: Trace | None,
    ) -> Float[Tensor, "B T D"]:
        """Every head attends; their answers are joined and projected."""
        dropout = self.dropout if self.training else 0.0
        if self.fast and trace is None:
            return self.output(_join(attend_fast(query, key, value, mask, dropout=dropout)))
        heads, weights = attend(query, key, value, mask, dropout=dropout)
        output = self.output(_join(heads))
        if trace is not None:
            trace.record(
                query=query, key=key, value=value, mask=mask, weights=weights, output=output
            )
        return output

    def _split(self, x: Float[Tensor, "B L P"]) -> Float[Tensor, "B N L K"]:
        """Head h takes the h-th stretch of K out of the numbers of each position."""
        B, L, _ = x.shape
        return x.view(B, L, -1, self.d_head).transpose(1, 2)


class SelfAttention(MultiHeadAttention):
    """Multi-head attention in which query, key and value are all the same sequence.

    With rotary positions, queries and keys are turned by where they stand.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        rotary: RotaryPositions | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        fast: bool = True,
    ) -> None:
        super().__init__(d_model, n_heads, bias=bias, dropout=dropout, fast=fast)
        self.rotary = rotary

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        cache: KVCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """With a cache, x is what is new, and it looks at all that went before as well."""
        heads = self._split(self.projection(x))  # B 3H T K
        looking, value = heads.split([2 * self.n_heads, self.n_heads], dim=1)
        if self.rotary is not None:
            looking = self.rotary(looking, past=0 if cache is None else cache.length)
        query, key = looking.chunk(2, dim=1)
        if cache is not None:
            key, value = cache.append(key, value)
        return self._attend(query, key, value, mask=mask, trace=trace)


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
        """The memory may come as what `remember` made of it: its keys and values do not change.

        It may have fewer rows than x, an equal share of x's rows reading each: neighbours are then
        looked at as positions of one row, for positions do not see each other here.
        """
        cache = memory if isinstance(memory, KVCache) else self.remember(memory)
        key, value = cache.key, cache.value
        (B, T, D), M = x.shape, key.size(0)
        if B % M:
            raise ValueError(f"{B} rows cannot share {M} memories equally")
        query = self._split(self.projection(x.view(M, -1, D), first=0, end=1))
        return self._attend(query, key, value, mask=mask, trace=trace).view(B, T, D)

    def remember(self, memory: Float[Tensor, "B S D"]) -> KVCache:
        """The keys and values of a memory, projected once for all steps of decoding."""
        key, value = self.projection(memory, first=1, end=3).chunk(2, dim=-1)  # B S D each
        cache = KVCache()
        cache.append(self._split(key), self._split(value))
        return cache


def _join(heads: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
    """The heads side by side again."""
    return heads.transpose(1, 2).flatten(2)
