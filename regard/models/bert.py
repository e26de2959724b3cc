"""BERT: a stack of blocks that reads a text whole, each token with both sides in sight."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.blueprint import Blueprint
from regard.models.initial import initialise
from regard.models.text_encoder import Encoded
from regard.nn.masks import padding_mask
from regard.nn.pooler import Pooler
from regard.nn.trace import Trace, at

BERT: dict[str, Any] = {
    "norm": "post",
    "norm_epsilon": 1e-12,
    "positions": "learned",
    "activation": "gelu",
    "scaled_embedding": False,
}
"""What BERT's blocks are made of, where a `Blueprint` has another default."""


class Bert(nn.Module):
    """A hidden state for every token of a text, or of two (Devlin et al. 2019).

        [CLS] a [SEP] b [SEP]
          │
        tokens + positions + segments ─ norm ─ blocks ─ hidden states
                                                          └ of [CLS] ─ pooler ─ summary

    parts: what its blocks are made of: any field of `Blueprint`; the defaults are BERT's. The
    encoder of the paper is the same model with other parts: norm="pre", positions="sinusoidal",
    segments=0, embedding_norm=False, pooler=False, own_init=True.

    segments: how many texts a row may have, each with a vector of its own; 0: they are not told
    apart. embedding_norm: a norm after the sum of embeddings. pooler: tanh(W h + b) of the first
    hidden state is the summary, and not that state itself. padding: the id whose embedding is
    zero; None: every id is a token. own_init: parts begin as each of them does, and not with BERT's
    normal weights of 0.02.
    """

    framed = True

    def __init__(
        self,
        vocab: int,
        *,
        n_layers: int = 12,
        segments: int = 2,
        embedding_norm: bool = True,
        pooler: bool = True,
        padding: int | None = None,
        own_init: bool = False,
        **parts: Any,
    ) -> None:
        super().__init__()
        blueprint = Blueprint(**BERT | parts)
        self.d_model = blueprint.d_model
        tokens = blueprint.tokens(vocab, padding=padding)
        self.embedding = blueprint.embedding(tokens, segments=segments, norm=embedding_norm)
        self.encoder = blueprint.stack(n_layers)
        self.pooler = Pooler(self.d_model) if pooler else None
        if not own_init:
            self.apply(initialise)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Encoded:
        """lengths: how many tokens of each row are real; None: all.

        segments: which text each token belongs to; None: all to the first.
        """
        embedded: Float[Tensor, "B L D"] = self.embedding(
            tokens, segments=segments, trace=at(trace, "embedding")
        )
        mask = None if lengths is None else padding_mask(lengths, tokens.size(1))  # B 1 1 L
        hidden = self.encoder(embedded, mask=mask, trace=at(trace, "encoder"))
        if self.pooler is None:
            return Encoded(hidden, hidden[:, 0])
        return Encoded(hidden, self.pooler(hidden, trace=at(trace, "pooler")))
