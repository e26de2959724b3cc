"""Blueprint: what the blocks of a model are made of, said once."""

from dataclasses import dataclass
from typing import Literal

from regard.nn.activations import Activation
from regard.nn.block import Block
from regard.nn.embedding import Embedding, TokenEmbedding
from regard.nn.feed_forward import FeedForward
from regard.nn.multi_head import CrossAttention, SelfAttention
from regard.nn.norms import Norm, NormKind, make_norm
from regard.nn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from regard.nn.residual import NormPlace, Residual
from regard.nn.stack import Stack

Positions = Literal["sinusoidal", "learned", "rotary", "none"]


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """Makes the parts of a model, all of one kind; each method makes a new part."""

    d_model: int
    n_heads: int
    n_kv_heads: int | None = None
    d_head: int | None = None
    d_ff: int
    activation: Activation = "relu"
    gated: bool = False
    norm: NormPlace = "pre"
    norm_kind: NormKind = "layer"
    positions: Positions = "sinusoidal"
    max_length: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.0
    bias: bool = True
    fast: bool = True

    def embedding(self, tokens: TokenEmbedding) -> Embedding:
        """Tokens and positions, if positions are added."""
        positions: SinusoidalPositions | LearnedPositions | None = None
        if self.positions == "learned":
            positions = LearnedPositions(self.d_model, length=self.max_length)
        elif self.positions == "sinusoidal":
            positions = SinusoidalPositions(self.d_model)
        return Embedding(tokens, positions, dropout=self.dropout)

    def stack(
        self, n_layers: int, *, cross_attention: bool = False, final_norm: bool | None = None
    ) -> Stack:
        """So many blocks; final_norm None: where each block norms before its sub-layers."""
        close = self.norm == "pre" if final_norm is None else final_norm
        blocks = [self.block(cross_attention=cross_attention) for _ in range(n_layers)]
        return Stack(blocks, final_norm=self.make_norm() if close else None)

    def block(self, *, cross_attention: bool = False) -> Block:
        """One layer."""
        return Block(
            self_attention=self.self_attention(),
            cross_attention=self.cross_attention() if cross_attention else None,
            feed_forward=self.feed_forward(),
            residual=self.residual,
        )

    def self_attention(self) -> SelfAttention:
        """Self-attention, with positions of its own if they are rotary."""
        width = self.d_model // self.n_heads if self.d_head is None else self.d_head
        return SelfAttention(
            self.d_model,
            self.n_heads,
            rotary=RotaryPositions(width) if self.positions == "rotary" else None,
            d_head=self.d_head,
            n_kv_heads=self.n_kv_heads,
            bias=self.bias,
            dropout=self.attention_dropout,
            fast=self.fast,
        )

    def cross_attention(self) -> CrossAttention:
        """Attention over an encoder's output."""
        return CrossAttention(
            self.d_model,
            self.n_heads,
            d_head=self.d_head,
            n_kv_heads=self.n_kv_heads,
            bias=self.bias,
            dropout=self.attention_dropout,
            fast=self.fast,
        )

    def feed_forward(self) -> FeedForward:
        """The position-wise network."""
        return FeedForward(
            self.d_model,
            self.d_ff,
            activation=self.activation,
            gated=self.gated,
            bias=self.bias,
            fast=self.fast,
        )

    def residual(self) -> Residual:
        """What stands around a sub-layer."""
        return Residual(self.make_norm(), place=self.norm, dropout=self.dropout)

    def make_norm(self) -> Norm:
        """A norm over the width of the model."""
        return make_norm(self.norm_kind, self.d_model, bias=self.bias, fast=self.fast)
