"""The Transformer's encoder: a stack of layers, each self-attention and feed-forward."""

from collections.abc import Iterable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.feed_forward import FeedForward
from regard.nn.layer_norm import LayerNorm
from regard.nn.multi_head import SelfAttention
from regard.nn.residual import NormPlace, Residual
from regard.nn.trace import Trace, at


class EncoderLayer(nn.Module):
    """x → self-attention → feed-forward, each within a residual (Vaswani et al. 2017, fig. 1 left).

    x ─┬─ self-attention ─ + ─┬─ feed-forward ─ + ─ output
       └───────────────────┘  └─────────────────┘
    """

    def __init__(
        self,
        d_model: int,
        *,
        self_attention: SelfAttention,
        feed_forward: FeedForward,
        dropout: float = 0.1,
        norm: NormPlace = "pre",
        fast: bool = True,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.attention_residual = Residual(d_model, dropout=dropout, norm=norm, fast=fast)
        self.feed_forward_residual = Residual(d_model, dropout=dropout, norm=norm, fast=fast)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B S D"]:
        x = self.attention_residual(
            x,
            lambda x: self.self_attention(x, mask=mask, trace=at(trace, "self_attention")),
            trace=at(trace, "attention_residual"),
        )
        return self.feed_forward_residual(
            x,
            lambda x: self.feed_forward(x, trace=at(trace, "feed_forward")),
            trace=at(trace, "feed_forward_residual"),
        )


class Encoder(nn.Module):
    """Layers one after another, and a final norm where they norm before themselves."""

    def __init__(self, layers: Iterable[EncoderLayer], *, final_norm: LayerNorm | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B S D"]:
        for number, layer in enumerate(self.layers):
            x = layer(x, mask=mask, trace=at(trace, f"layers.{number}"))
        return x if self.final_norm is None else self.final_norm(x, trace=at(trace, "final_norm"))
