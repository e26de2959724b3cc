"""A class for a whole sequence, by recurrent layers (many to one)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.recurrent_encoder import RecurrentBody
from regard.nn.embedding import VocabularySide
from regard.nn.pooling import Pooling, PoolingKind
from regard.nn.trace import Trace, at


class RecurrentClassifier(RecurrentBody):
    """Logits of the classes of a sequence.

        tokens ─ embedding ─ recurrent layers ─ h₁ … h_L ─ pooling ─ linear ─ logits

    pooling: `final` takes the encoder's summary. options: those of the `RecurrentBody`.
    """

    exports: tuple[str, ...] = ()
    quantizable = False
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "embedding": "read",
        "output": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(
        self, vocab: int, classes: int, *, pooling: PoolingKind = "final", **options: Any
    ) -> None:
        super().__init__(vocab, **options)
        self.pooling = Pooling(pooling, self.d_model)
        self.output = nn.Linear(self.d_model, classes)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B C"]:
        """Logits of the classes of each row; lengths: how many tokens are real, None: all.

        segments are not used: `</s>` between two texts tells them apart.
        """
        hidden, summary = self.states(tokens, lengths, trace=trace)
        if lengths is None:
            lengths = tokens.new_full((tokens.size(0),), tokens.size(1))
        mask = torch.arange(tokens.size(1), device=tokens.device) < lengths[:, None]  # B L
        pooled = self.pooling(hidden, summary, mask, trace=at(trace, "pooling"))
        logits = self.output(self.dropout(pooled))
        if trace is not None:
            trace.at("output").record({"logits": "BC"}, logits=logits)
        return logits
