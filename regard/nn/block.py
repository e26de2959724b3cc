"""Block: the one layer that encoders, decoders, GPT and BERT are stacks of."""

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.cache import KVCache, LayerCache
from regard.nn.feed_forward import FeedForward
from regard.nn.multi_head import CrossAttention, SelfAttention
from regard.nn.residual import Residual
from regard.nn.trace import Trace, at


class Block(nn.Module):
    """x → self-attention → (cross-attention) → feed-forward, each within a residual.

                                memory
                                  │
    x ─┬─ self-attention ─ + ─┬─ cross-attention ─ + ─┬─ feed-forward ─ + ─ output
       └───────────────────┘  └────────────────────┘  └─────────────────┘

    Vaswani et al. 2017, fig. 1: with cross-attention it is a decoder's layer (right), without an
    encoder's (left), BERT's or GPT's. What it is made of is handed in; `residual` makes a residual,
    which says the norm, where it stands, and the dropout.
    """

    def __init__(
        self,
        *,
        self_attention: SelfAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
        cross_attention: CrossAttention | None = None,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.self_attention_residual = residual()
        self.cross_attention_residual = None if cross_attention is None else residual()
        self.feed_forward_residual = residual()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        positions: Int[Tensor, "#B T"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: LayerCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """mask, is_causal, positions and the cache's past are for self-attention.

        Cross-attention reads the memory; if none is given, its keys and values in the cache.
        """
        past = None if cache is None else cache.self_attention
        x = self.self_attention_residual(
            x,
            self.self_attention,
            mask=mask,
            is_causal=is_causal,
            positions=positions,
            cache=past,
            trace=at(trace, "self_attention"),
        )
        if self.cross_attention is not None and self.cross_attention_residual is not None:
            source: Tensor | KVCache | None = memory
            if source is None and cache is not None:
                source = cache.cross_attention
            if source is None:
                raise ValueError("cross-attention needs an encoder's output, or a cache of it")
            x = self.cross_attention_residual(
                x,
                self.cross_attention,
                source,
                mask=memory_mask,
                trace=at(trace, "cross_attention"),
            )
        return self.feed_forward_residual(x, self.feed_forward, trace=at(trace, "feed_forward"))
