"""Encoder-decoder of recurrent layers with attention (Bahdanau et al. 2015; Luong et al. 2015)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.cells import CellKind, CellState
from regard.nn.classic_attention import ClassicAttention, ClassicKind, ProjectedMemory
from regard.nn.dropout import Dropout
from regard.nn.embedding import (
    OutputProjection,
    TokenEmbedding,
    Tying,
    VocabularySide,
    check_tying,
)
from regard.nn.randomness import generator
from regard.nn.recurrent import Recurrent, RecurrentInit, encoder
from regard.nn.trace import Trace, at

AttentionKind = Literal["none"] | ClassicKind


@dataclass(frozen=True)
class Seq2SeqState:
    """Where decoding stands; a step makes a new one."""

    cells: CellState
    """Of the decoder's layers: B N D each."""
    fed: Float[Tensor, "B D"]
    """h̃: the attentional hidden state of the last step, which is fed into the next one."""
    memory: ProjectedMemory | None
    """The encoder output as attention reads it."""
    mask: Bool[Tensor, "B S"]
    """True where a source token is real."""

    def select(self, rows: Int[Tensor, "N"]) -> "Seq2SeqState":
        return Seq2SeqState(
            tuple(part[rows] for part in self.cells),
            self.fed[rows],
            None if self.memory is None else self.memory.select(rows),
            self.mask[rows],
        )


class AttentionSeq2Seq(nn.Module):
    """Logits of the next target token, given the source and the target so far.

        source ─ embedding ─ encoder (both ways) ─ encoder output m₁ … m_S
                                     │                   │
                              bridge to the state    attention
                                     │                   │
        yₜ₋₁ ─ embedding ─┬─ decoder ┴─ hₜ ──────── context cₜ
              h̃ₜ₋₁ ───────┘                   h̃ₜ = tanh(W [cₜ; hₜ]) ─ output projection ─ logits

    h̃ is fed into the next step (input feeding, Luong et al. 2015, §3.3), so that the decoder knows
    where it has looked. attention="none" leaves context and feeding out: all that the decoder knows
    of the source is the state it starts from.

    bridge=False: the last state of the encoder is the decoder's first as it is. output_bias: a bias
    on the logits.
    teacher_forcing: how often, in training, a step is given the true token and not the model's own.
    padding: the token whose embedding stays zero; None: every token's is learned.
    """

    exports: tuple[str, ...] = ()
    quantizable = False
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "source_embedding": "read",
        "target_embedding": "generated",
        "output": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        *,
        kind: CellKind = "lstm",
        attention: AttentionKind = "bahdanau",
        d_model: int = 256,
        n_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.1,
        teacher_forcing: float = 1.0,
        recurrent_init: RecurrentInit = "orthogonal",
        tie_embeddings: Tying = "none",
        bridge: bool = True,
        output_bias: bool = False,
        padding: int | None = 0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        check_tying(tie_embeddings, src_vocab, tgt_vocab)
        self.teacher_forcing = teacher_forcing
        self.source_embedding = TokenEmbedding(src_vocab, d_model, padding=padding)
        self.target_embedding = (
            self.source_embedding
            if tie_embeddings == "all"
            else TokenEmbedding(tgt_vocab, d_model, padding=padding)
        )
        self.dropout = Dropout(dropout)
        self.encoder = encoder(
            kind,
            d_model,
            n_layers=n_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            init=recurrent_init,
            fast=fast,
        )
        self.bridge = nn.Linear(d_model, d_model) if bridge else None
        self.attention = (
            None
            if attention == "none"
            else ClassicAttention(attention, d_model, self.encoder.d_output)
        )
        self.decoder = Recurrent(
            kind,
            d_model if self.attention is None else 2 * d_model,
            d_model,
            n_layers=n_layers,
            dropout=dropout,
            init=recurrent_init,
            fast=fast,
        )
        if self.attention is not None:
            self.combine = nn.Linear(2 * d_model, d_model, bias=False)
        self.output = OutputProjection(
            tgt_vocab,
            d_model,
            tied=None if tie_embeddings == "none" else self.target_embedding,
            bias=output_bias,
        )

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        *,
        source_lengths: Int[Tensor, "B"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits after each target token, step by step: attention at t needs the result of t − 1.

        source_lengths: how many tokens of each source are real; None: all.
        """
        state = self._encode(source, source_lengths, trace=trace)
        embedded = self._embed(target, trace=at(trace, "target_embedding", rows="target"))  # B T D
        hidden: list[Tensor] = []
        step_traces: list[Trace] = []
        for position in range(target.size(1)):
            x = embedded[:, position]
            if hidden and self.training and self._reads_its_own_token():
                predicted = self.output(hidden[-1]).argmax(-1)  # B
                x = self._embed(predicted[:, None])[:, 0]
            step_trace = None if trace is None else trace.step(position)
            state = self._advance(x, state, trace=step_trace)
            hidden.append(state.fed)
            if step_trace is not None:
                step_traces.append(step_trace)
        if trace is not None:
            trace.join(step_traces)
        output = at(trace, "output", rows="target")
        return self.output(torch.stack(hidden, dim=1), trace=output)

    def _reads_its_own_token(self) -> bool:
        """Whether a step of training is given the model's own last token: random each time."""
        return bool(torch.rand((), generator=generator()) >= self.teacher_forcing)

    def start(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, "B"] | None = None
    ) -> Seq2SeqState:
        """The state before the first target token, with the source encoded."""
        return self._encode(source, source_lengths)

    def step(
        self, tokens: Int[Tensor, "B"], state: Seq2SeqState
    ) -> tuple[Float[Tensor, "B V"], Seq2SeqState]:
        """One more target token per row: logits of the one after it, and the next state."""
        state = self._advance(self._embed(tokens[:, None])[:, 0], state)
        return self.output(state.fed), state

    def _embed(
        self, tokens: Int[Tensor, "B T"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B T D"]:
        return self.dropout(self.target_embedding(tokens, trace=trace))

    def _encode(
        self,
        source: Int[Tensor, "B S"],
        source_lengths: Int[Tensor, "B"] | None,
        *,
        trace: Trace | None = None,
    ) -> Seq2SeqState:
        """Encode the source; its final state, both directions joined, starts the decoder."""
        if source_lengths is None:
            source_lengths = source.new_full((source.size(0),), source.size(1))
        mask = torch.arange(source.size(1), device=source.device) < source_lengths[:, None]  # B S
        embedded = self.source_embedding(source, trace=at(trace, "source_embedding"))
        encoded, final = self.encoder(
            self.dropout(embedded), source_lengths, trace=at(trace, "encoder")
        )
        B, _, D = encoded.shape
        N = self.encoder.n_layers
        cells = tuple(part.reshape(B, N, D) for part in final)
        if self.bridge is not None:
            cells = tuple(torch.tanh(self.bridge(part)) for part in cells)
        memory = None if self.attention is None else self.attention.remember(encoded)
        return Seq2SeqState(cells, encoded.new_zeros(B, D), memory, mask)

    def _advance(
        self, x: Float[Tensor, "B D"], state: Seq2SeqState, *, trace: Trace | None = None
    ) -> Seq2SeqState:
        """One step of the decoder, and what attention makes of it."""
        if self.attention is not None:
            x = torch.cat([x, state.fed], dim=-1)  # B 2D
        scope = at(trace, "decoder", rows="target", memory="source")
        outputs, cells = self.decoder(x[:, None], initial=state.cells, trace=scope)
        hidden = outputs[:, 0]  # B D
        if self.attention is not None and state.memory is not None:
            context, _ = self.attention(
                hidden, state.memory, mask=state.mask, trace=at(scope, "cross_attention")
            )
            hidden = torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))
        return Seq2SeqState(cells, self.dropout(hidden), state.memory, state.mask)
