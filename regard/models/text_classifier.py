"""A class for a text or for a pair of texts, by any encoder; or a score, as one output."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.initial import initialise
from regard.models.text_encoder import TextEncoder, leave_out_summary
from regard.nn.dropout import Dropout
from regard.nn.embedding import VocabularySide
from regard.nn.pooling import Pooling, PoolingKind
from regard.nn.trace import Trace, at


class TextClassifier(nn.Module):
    """Logits of the classes of a text (Devlin et al. 2019, §4.1).

        tokens ─ body ─ h₁ … h_L, summary ─ pooling ─ dropout ─ linear ─ logits

    body: a `TextEncoder`. classes: how many; 1 where the output is a score. pooling: `final` takes
    the body's own summary, such as BERT's pooled [CLS].
    """

    exports: tuple[str, ...] = ("hf",)
    quantizable = False
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "body.embedding": "read",
        "body.bigrams": "read",
        "output": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""

    def __init__(
        self,
        body: TextEncoder,
        classes: int,
        *,
        pooling: PoolingKind = "final",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.body = body
        self.pooling = Pooling(pooling, body.d_model)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(body.d_model, classes)
        initialise(self.output)  # near 0: no class is preferred at first
        if pooling != "final":
            leave_out_summary(body)

    def vectors(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B D"]:
        """What the head looks at: one vector per row."""
        hidden, summary = self.body(tokens, lengths, segments=segments, trace=at(trace, "body"))
        if lengths is None:
            lengths = tokens.new_full((tokens.size(0),), tokens.size(1))
        mask = torch.arange(tokens.size(1), device=tokens.device) < lengths[:, None]  # B L
        return self.pooling(hidden, summary, mask, trace=at(trace, "pooling"))

    def head(self, vectors: Float[Tensor, "B D"]) -> Float[Tensor, "B C"]:
        """Logits of these vectors."""
        logits: Tensor = self.output(self.dropout(vectors))
        return logits

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B C"]:
        """lengths: how many tokens of each row are real; None: all.

        segments: which of two texts each token belongs to; None: there is one text.
        """
        logits = self.head(self.vectors(tokens, lengths, segments=segments, trace=trace))
        if trace is not None:
            trace.at("output").record({"logits": "BC"}, logits=logits)
        return logits
