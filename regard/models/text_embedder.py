"""One vector for a text: an encoder with a pooling that has no weights."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.bert import Bert
from regard.models.text_encoder import Encoded
from regard.nn.embedding import VocabularySide
from regard.nn.trace import Trace, at

Pool = Literal["cls", "mean", "max", "final"]
POOLS: tuple[Pool, ...] = get_args(Pool)


Encode = Callable[..., Encoded]
"""An encoder as it is called: (tokens, lengths, trace=trace), as any `TextEncoder`."""


def pooled(
    encoded: Encoded, mask: Bool[Tensor, "B L"], *, pool: Pool, normalize: bool
) -> Float[Tensor, "B D"]:
    """One vector per text from a vector per token.

        cls     h₁, the hidden state of the first token (which is not BERT's pooler of it)
        mean    Σ hₜ / L, [CLS] and [SEP] among them (Reimers & Gurevych 2019, §3)
        max     the largest value of each component over the tokens
        final   the encoder's own summary: BERT's pooler, or the last recurrent state

    mask: True where a token is real; padding takes no part. normalize: divided by its length.
    """
    hidden, real = encoded.hidden, mask[:, :, None]  # B L D, B L 1
    if pool == "mean":
        vectors = (hidden * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    elif pool == "max":
        vectors = hidden.masked_fill(~real, torch.finfo(hidden.dtype).min).amax(dim=1)
    else:
        vectors = hidden[:, 0] if pool == "cls" else encoded.summary
    return F.normalize(vectors, dim=-1) if normalize else vectors


def embed(
    encode: Encode,
    tokens: Int[Tensor, "B L"],
    lengths: Int[Tensor, "B"] | None = None,
    *,
    pool: Pool,
    normalize: bool,
    trace: Trace | None = None,
) -> Float[Tensor, "B D"]:
    """The vector of each row; lengths: how many tokens are real, None: all."""
    if lengths is None:
        lengths = tokens.new_full((tokens.size(0),), tokens.size(1))
    mask = torch.arange(tokens.size(1), device=tokens.device) < lengths[:, None]  # B L
    return pooled(encode(tokens, lengths, trace=trace), mask, pool=pool, normalize=normalize)


class TextEmbedder(nn.Module):
    """An encoder, and how its states become one vector: all of its weights are the encoder's."""

    exports: tuple[str, ...] = ("hf",)
    quantizable = True
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {"body.embedding": "read"}
    """Its parts with one row per token, and whether those are read or generated."""

    def __init__(self, body: Bert, *, pooling: Pool = "mean", normalize: bool = True) -> None:
        super().__init__()
        if pooling not in POOLS:
            raise ValueError(f"pooling={pooling!r} is not one of {', '.join(POOLS)}")
        self.body = body
        self.pooling: Pool = pooling
        self.normalize = normalize

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B D"]:
        """A vector per row; lengths: how many tokens of each are real, None: all."""
        pool, normalize = self.pooling, self.normalize
        scope = at(trace, "body")
        return embed(self.body, tokens, lengths, pool=pool, normalize=normalize, trace=scope)
