"""The Transformer's decoder: layers of causal self-attention, cross-attention and feed-forward."""

from collections.abc import Iterable
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.cache import KVCache
from regard.nn.feed_forward import FeedForward
from regard.nn.layer_norm import LayerNorm
from regard.nn.multi_head import CrossAttention, SelfAttention
from regard.nn.residual import NormPlace, Residual
from regard.nn.trace import Trace, at


@dataclass
class LayerCache:
    """What one layer need not compute again: its own past, and the memory's keys and values."""

    self_attention: KVCache
    cross_attention: KVCache

    def select(self, rows: Int[Tensor, "N"], memory_rows: Int[Tensor, "M"] | None) -> "LayerCache":
        """These rows of the batch and of the memory; None: the memory as it is."""
        cross = self.cross_attention
        return LayerCache(
            self.self_attention.select(rows),
            cross if memory_rows is None else cross.select(memory_rows),
        )


class DecoderLayer(nn.Module):
    """x → self-attention → cross-attention → feed-forward (Vaswani et al. 2017, fig. 1 right).

                                memory
                                  │
    x ─┬─ self-attention ─ + ─┬─ cross-attention ─ + ─┬─ feed-forward ─ + ─ output
       └───────────────────┘  └────────────────────┘  └─────────────────┘
    """

    def __init__(
        self,
        d_model: int,
        *,
        self_attention: SelfAttention,
        cross_attention: CrossAttention,
        feed_forward: FeedForward,
        dropout: float = 0.1,
        norm: NormPlace = "pre",
        fast: bool = True,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.self_residual = Residual(d_model, dropout=dropout, norm=norm, fast=fast)
        self.cross_residual = Residual(d_model, dropout=dropout, norm=norm, fast=fast)
        self.feed_forward_residual = Residual(d_model, dropout=dropout, norm=norm, fast=fast)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: LayerCache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Looks at the memory itself, or at the keys and values of it that a cache holds."""
        past = None if cache is None else cache.self_attention
        looked_at = memory if cache is None else cache.cross_attention
        if looked_at is None:
            raise ValueError("a decoder layer needs the encoder's memory, or a cache of it")
        x = self.self_residual(
            x,
            lambda x: self.self_attention(
                x, mask=mask, cache=past, trace=at(trace, "self_attention")
            ),
            trace=at(trace, "self_residual"),
        )
        x = self.cross_residual(
            x,
            lambda x: self.cross_attention(
                x, looked_at, mask=memory_mask, trace=at(trace, "cross_attention")
            ),
            trace=at(trace, "cross_residual"),
        )
        return self.feed_forward_residual(
            x,
            lambda x: self.feed_forward(x, trace=at(trace, "feed_forward")),
            trace=at(trace, "feed_forward_residual"),
        )


class Decoder(nn.Module):
    """Layers one after another, and a final norm where they norm before themselves."""

    def __init__(self, layers: Iterable[DecoderLayer], *, final_norm: LayerNorm | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: list[LayerCache] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        for number, layer in enumerate(self.layers):
            x = layer(
                x,
                memory,
                mask=mask,
                memory_mask=memory_mask,
                cache=None if caches is None else caches[number],
                trace=at(trace, f"layers.{number}"),
            )
        return x if self.final_norm is None else self.final_norm(x, trace=at(trace, "final_norm"))

    def remember(self, memory: Float[Tensor, "B S D"]) -> list[LayerCache]:
        """An empty past for every layer, and its keys and values of the memory."""
        found = []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            found.append(LayerCache(KVCache(), layer.cross_attention.remember(memory)))
        return found
