"""The Transformer of Vaswani et al. 2017: encoder, decoder, embeddings, output."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.decoder import Decoder, DecoderLayer, LayerCache
from regard.nn.embedding import Embedding, OutputProjection, TokenEmbedding, Tying, check_tying
from regard.nn.encoder import Encoder, EncoderLayer
from regard.nn.feed_forward import Activation, FeedForward
from regard.nn.layer_norm import LayerNorm
from regard.nn.masks import causal_mask, padding_mask
from regard.nn.multi_head import CrossAttention, SelfAttention
from regard.nn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from regard.nn.residual import NormPlace
from regard.nn.trace import Trace, at

Positions = Literal["sinusoidal", "learned", "rotary"]


@dataclass(frozen=True)
class TransformerState:
    """Where decoding stands: what each layer remembers, and which memory each row reads.

    Hypotheses of one source stand side by side and share its memory: B rows, M memories.
    """

    caches: list[LayerCache]
    memory_mask: Bool[Tensor, "M 1 1 S"]
    reads: Int[Tensor, "B"]
    """The memory of each row: every one for B/M rows, one after another."""

    def select(self, rows: Int[Tensor, "N"]) -> "TransformerState":
        """These rows, in this order."""
        reads = self.reads[rows]  # N
        wanted, shares = reads.unique_consecutive(return_counts=True)
        if (shares != shares[0]).any():
            wanted = reads  # not the same number of rows for each: a memory for every row
        memories = torch.arange(len(self.memory_mask), device=rows.device)
        changed = None if wanted.equal(memories) else wanted
        places = torch.arange(len(wanted), device=rows.device)
        return TransformerState(
            [cache.select(rows, changed) for cache in self.caches],
            self.memory_mask if changed is None else self.memory_mask[changed],
            places.repeat_interleave(len(reads) // len(wanted)),
        )


class Transformer(nn.Module):
    """Scores of the next target token, given the source and the target so far.

        source ─ embedding ─ encoder ─────┐ memory
        target ─ embedding ─ decoder ─────┴──── output projection ─ scores

    decoder_layers: how many the decoder has, where it is not n_layers. A shallow decoder under a
    deep encoder writes much faster, at little loss (Kasai et al. 2021).

    tie_embeddings: "none"; "output", the output projection is the target embedding; "all", the
    source embedding is the same too, which takes one vocabulary for both.
    """

    exports: tuple[str, ...] = ("ctranslate2", "onnx")
    quantizable = True

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        *,
        d_model: int = 512,
        n_layers: int = 6,
        decoder_layers: int | None = None,
        n_heads: int = 8,
        d_ff: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        norm: NormPlace = "pre",
        final_norm: bool | None = None,
        positions: Positions = "sinusoidal",
        max_length: int = 512,
        activation: Activation = "relu",
        tie_embeddings: Tying = "none",
        bias: bool = True,
        padding: int | None = 0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        check_tying(tie_embeddings, src_vocab, tgt_vocab)
        self.d_model = d_model
        # Layers that norm before themselves leave their sum unnormed: one norm closes the stack.
        close = norm == "pre" if final_norm is None else final_norm

        source_tokens = TokenEmbedding(src_vocab, d_model, padding=padding)
        target_tokens = (
            source_tokens
            if tie_embeddings == "all"
            else TokenEmbedding(tgt_vocab, d_model, padding=padding)
        )

        def embedding(tokens: TokenEmbedding) -> Embedding:
            places: SinusoidalPositions | LearnedPositions | None = None
            if positions == "learned":
                places = LearnedPositions(d_model, length=max_length)
            elif positions == "sinusoidal":
                places = SinusoidalPositions(d_model)
            return Embedding(tokens, places, dropout=dropout)

        rotary = RotaryPositions(d_model // n_heads) if positions == "rotary" else None

        def feed_forward() -> FeedForward:
            return FeedForward(d_model, d_ff, activation=activation, fast=fast)

        def self_attention() -> SelfAttention:
            return SelfAttention(
                d_model,
                n_heads,
                rotary=rotary,
                bias=bias,
                dropout=attention_dropout,
                fast=fast,
            )

        def cross_attention() -> CrossAttention:
            return CrossAttention(d_model, n_heads, bias=bias, dropout=attention_dropout, fast=fast)

        self.source_embedding = embedding(source_tokens)
        self.target_embedding = embedding(target_tokens)
        self.encoder = Encoder(
            [
                EncoderLayer(
                    d_model,
                    self_attention=self_attention(),
                    feed_forward=feed_forward(),
                    dropout=dropout,
                    norm=norm,
                    fast=fast,
                )
                for _ in range(n_layers)
            ],
            final_norm=LayerNorm(d_model, fast=fast) if close else None,
        )
        self.decoder = Decoder(
            [
                DecoderLayer(
                    d_model,
                    self_attention=self_attention(),
                    cross_attention=cross_attention(),
                    feed_forward=feed_forward(),
                    dropout=dropout,
                    norm=norm,
                    fast=fast,
                )
                for _ in range(n_layers if decoder_layers is None else decoder_layers)
            ],
            final_norm=LayerNorm(d_model, fast=fast) if close else None,
        )
        self.output = OutputProjection(
            tgt_vocab, d_model, tied=None if tie_embeddings == "none" else target_tokens
        )
        self.apply(_initialise)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        *,
        source_lengths: Int[Tensor, "B"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Scores at every target position at once, each blind to the positions after it."""
        memory, memory_mask = self.encode(source, source_lengths, trace=trace)
        return self.decode(target, memory, memory_mask=memory_mask, trace=trace)

    def encode(
        self,
        source: Int[Tensor, "B S"],
        source_lengths: Int[Tensor, "B"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 1 S"]]:
        """The memory that the decoder looks at, and the mask over its padding."""
        mask = padding_mask(source)
        if source_lengths is not None:
            steps = torch.arange(source.size(1), device=source.device)
            mask = (steps < source_lengths[:, None])[:, None, None]
        embedded = self.source_embedding(source, trace=at(trace, "source_embedding"))
        return self.encoder(embedded, mask=mask, trace=at(trace, "encoder")), mask

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        *,
        memory_mask: Bool[Tensor, "B 1 1 S"],
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Scores after each target token.

        The causal mask hides the target's padding too: it stands at the end, in the future of
        every real token.
        """
        hidden = self.decoder(
            self.target_embedding(target, trace=at(trace, "target_embedding")),
            memory,
            mask=causal_mask(target.size(1), device=target.device),
            memory_mask=memory_mask,
            trace=at(trace, "decoder"),
        )
        return self.output(hidden, trace=at(trace, "output"))

    def start(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, "B"] | None = None
    ) -> TransformerState:
        """Read the source: the state before the first target token."""
        memory, memory_mask = self.encode(source, source_lengths)
        rows = torch.arange(source.size(0), device=source.device)
        return TransformerState(self.decoder.remember(memory), memory_mask, rows)

    def step(
        self, tokens: Int[Tensor, "B"], state: TransformerState
    ) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """One more target token a row: scores of the one after it, and the state grown by it."""
        past = state.caches[0].self_attention.length
        hidden = self.decoder(
            self.target_embedding(tokens[:, None], past=past),
            memory_mask=state.memory_mask,
            caches=state.caches,
        )
        return self.output(hidden[:, 0]), state


def _initialise(module: nn.Module) -> None:
    """Glorot's uniform weights and zero biases, as the paper's own code has them."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
