"""A class for a whole sequence, by recurrent layers (many to one)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.cells import CellKind
from regard.nn.dropout import Dropout
from regard.nn.embedding import TokenEmbedding, VocabularySide
from regard.nn.pooling import Pooling, PoolingKind
from regard.nn.recurrent import RecurrentInit, encoder
from regard.nn.trace import Trace, at


class RecurrentClassifier(nn.Module):
    """Logits of the classes of a sequence.

        tokens ─ embedding ─ recurrent layers ─ h₁ … h_L ─ pooling ─ linear ─ logits

    A bidirectional one gives half of d_model to each direction; `final` is then the state of both
    at their own last step: the end for the one, the beginning for the other.

    padding: the token whose embedding stays zero; None: every token's is learned.
    """

    exports: tuple[str, ...] = ()
    quantizable = False
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "embedding": "read",
        "output": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(
        self,
        vocab: int,
        classes: int,
        *,
        kind: CellKind = "lstm",
        d_model: int = 64,
        n_layers: int = 1,
        bidirectional: bool = False,
        pooling: PoolingKind = "final",
        dropout: float = 0.1,
        recurrent_init: RecurrentInit = "orthogonal",
        padding: int | None = 0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab, d_model, padding=padding)
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
        self.pooling = Pooling(pooling, d_model)
        self.output = nn.Linear(d_model, classes)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B C"]:
        """Logits of the classes of each row.

        lengths: how many tokens of each row are real; None: all.
        """
        if lengths is None:
            lengths = tokens.new_full((tokens.size(0),), tokens.size(1))
        mask = torch.arange(tokens.size(1), device=tokens.device) < lengths[:, None]  # B L
        embedded = self.dropout(self.embedding(tokens, trace=at(trace, "embedding")))
        outputs, state = self.encoder(embedded, lengths, trace=at(trace, "encoder"))
        last = state[0][:, -self.encoder.directions :].flatten(1)  # B D: the last layer's
        pooled = self.pooling(outputs, last, mask, trace=at(trace, "pooling"))
        logits = self.output(self.dropout(pooled))
        if trace is not None:
            trace.at("output").record(logits=logits)
        return logits
