"""Blueprint: what the blocks of a model are made of, said once."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.nn.activations import Activation
from regard.nn.block import Block
from regard.nn.embedding import Embedding, TokenEmbedding
from regard.nn.feed_forward import FeedForward
from regard.nn.multi_head import CrossAttention, SelfAttention
from regard.nn.norms import Norm, NormKind, make_norm
from regard.nn.positions import LearnedPositions, Pairing, RotaryPositions, SinusoidalPositions
from regard.nn.residual import NormPlace, Residual
from regard.nn.stack import Stack

Positions = Literal["sinusoidal", "learned", "rotary", "none"]


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """Makes the parts of a model, all of one kind; each method makes a new part."""

    d_model: int = 512
    n_heads: int = 8
    n_kv_heads: int | None = None
    d_head: int | None = None
    qk_norm: bool = False
    """A norm on the queries and keys of every head."""
    window: int | None = None
    """How many positions a causal stack looks back at, its own included; None: all."""
    d_ff: int = 2048
    activation: Activation = "relu"
    gated: bool = False
    norm: NormPlace = "pre"
    norm_kind: NormKind = "layer"
    norm_epsilon: float = 1e-5
    positions: Positions = "sinusoidal"
    rotary_base: float = 10_000.0
    rotary_pairing: Pairing = "half"
    max_length: int = 512
    """How many learned positions there are."""
    scaled_embedding: bool = True
    """Token embeddings are multiplied by √D."""
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    bias: bool = True
    fast: bool = True

    def tokens(self, vocab: int, *, padding: int | None) -> TokenEmbedding:
        """A vector per token."""
        return TokenEmbedding(vocab, self.d_model, padding=padding, scaled=self.scaled_embedding)

    def embedding(
        self, tokens: TokenEmbedding, *, segments: int = 0, norm: bool = False
    ) -> Embedding:
        """Tokens and positions, if positions are added; segments: how many kinds, 0 for none."""
        positions: SinusoidalPositions | LearnedPositions | None = None
        if self.positions == "learned":
            positions = LearnedPositions(self.d_model, length=self.max_length)
        elif self.positions == "sinusoidal":
            positions = SinusoidalPositions(self.d_model)
        return Embedding(
            tokens,
            positions,
            segments=TokenEmbedding(segments, self.d_model, padding=None, scaled=False)
            if segments
            else None,
            norm=self.make_norm() if norm else None,
            dropout=self.dropout,
        )

    def stack(
        self,
        n_layers: int,
        *,
        cross_attention: bool = False,
        final_norm: bool | None = None,
        windowed: bool = False,
    ) -> Stack:
        """So many blocks; final_norm None: where each block norms before its sub-layers."""
        close = self.norm == "pre" if final_norm is None else final_norm
        blocks = [
            self.block(cross_attention=cross_attention, windowed=windowed) for _ in range(n_layers)
        ]
        return Stack(blocks, final_norm=self.make_norm() if close else None)

    def block(self, *, cross_attention: bool = False, windowed: bool = False) -> Block:
        """One layer; windowed: its self-attention looks back no further than the window."""
        return Block(
            self_attention=self.self_attention(windowed=windowed),
            cross_attention=self.cross_attention() if cross_attention else None,
            feed_forward=self.feed_forward(),
            residual=self.residual,
        )

    def self_attention(self, *, windowed: bool = False) -> SelfAttention:
        """Self-attention, with positions of its own if they are rotary."""
        rotary = None
        if self.positions == "rotary":
            base, pairing = self.rotary_base, self.rotary_pairing
            rotary = RotaryPositions(self.head_width, base=base, pairing=pairing)
        return SelfAttention(
            self.d_model,
            self.n_heads,
            rotary=rotary,
            window=self.window if windowed else None,
            **self._attention(),
        )

    def cross_attention(self) -> CrossAttention:
        """Attention over an encoder's output."""
        return CrossAttention(self.d_model, self.n_heads, **self._attention())

    def _attention(self) -> dict[str, Any]:
        """The options of attention of both kinds."""
        return {
            "d_head": self.d_head,
            "n_kv_heads": self.n_kv_heads,
            "query_norm": self.make_norm(self.head_width) if self.qk_norm else None,
            "key_norm": self.make_norm(self.head_width) if self.qk_norm else None,
            "bias": self.bias,
            "dropout": self.attention_dropout,
            "fast": self.fast,
        }

    @property
    def head_width(self) -> int:
        """K."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    def feed_forward(self) -> FeedForward:
        """The position-wise network."""
        return FeedForward(
            self.d_model,
            self.d_ff,
            activation=self.activation,
            gated=self.gated,
            bias=self.bias,
            dropout=self.feed_forward_dropout,
            fast=self.fast,
        )

    def residual(self) -> Residual:
        """The sum of a sub-layer and its input, with the norm and the dropout."""
        return Residual(self.make_norm(), place=self.norm, dropout=self.dropout)

    def make_norm(self, width: int | None = None) -> Norm:
        """A norm over so many numbers; None: over the width of the model."""
        return make_norm(
            self.norm_kind,
            self.d_model if width is None else width,
            epsilon=self.norm_epsilon,
            bias=self.bias,
            fast=self.fast,
        )
