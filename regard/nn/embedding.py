"""From token ids to vectors and back: embeddings and the output projection."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.masks import PADDING
from regard.nn.positions import LearnedPositions, SinusoidalPositions
from regard.nn.trace import Trace, at


class TokenEmbedding(nn.Module):
    """E[token] · √D, with zeros for padding (Vaswani et al. 2017, §3.4).

    Rows start with variance 1/D, which suits the output projection that may share them; √D brings
    them to the size of the positions that are added next.
    """

    def __init__(self, vocab: int, d_model: int, *, padding: int | None = PADDING) -> None:
        super().__init__()
        self.padding = padding
        self.weight = nn.Parameter(torch.empty(vocab, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        if padding is not None:
            with torch.no_grad():
                self.weight[padding] = 0

    def forward(
        self, tokens: Int[Tensor, "B L"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B L D"]:
        # padding_idx keeps the gradient of that row at zero, so it stays what it was made.
        scale = math.sqrt(self.weight.size(1))
        output = F.embedding(tokens, self.weight, padding_idx=self.padding) * scale
        if trace is not None:
            trace.record(tokens=tokens, output=output)
        return output


Tying = Literal["none", "output", "all"]
"""One weight for the output and the target's embedding, and for the source's too."""


def check_tying(tie_embeddings: Tying, src_vocab: int, tgt_vocab: int) -> None:
    """Refuse to share one weight between two vocabularies."""
    if tie_embeddings == "all" and src_vocab != tgt_vocab:
        raise ValueError(
            f"tie_embeddings='all' needs one vocabulary, and there are {src_vocab} source and "
            f"{tgt_vocab} target tokens; 'output' ties the target side alone"
        )


class Embedding(nn.Module):
    """Dropout(token + position): what the first layer of an encoder or decoder is given.

    Without positions, where attention has its own.
    """

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: SinusoidalPositions | LearnedPositions | None,
        *,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "B L"], *, past: int = 0, trace: Trace | None = None
    ) -> Float[Tensor, "B L D"]:
        """past is how many positions went before these tokens, when decoding with a cache."""
        embedded = self.tokens(tokens, trace=at(trace, "tokens"))  # B L D
        if self.positions is not None:
            embedded = embedded + self.positions(
                tokens.size(1), past=past, trace=at(trace, "positions")
            )
        output = self.dropout(embedded)
        if trace is not None:
            trace.record(output=output)
        return output


class OutputProjection(nn.Module):
    """x Wᵀ: a score for every token; W its own, or the embedding's (Press & Wolf 2017)."""

    def __init__(self, vocab: int, d_model: int, *, tied: TokenEmbedding | None = None) -> None:
        super().__init__()
        self.tied = tied is not None
        self.padding = None if tied is None else tied.padding
        self.weight = nn.Parameter(torch.empty(vocab, d_model)) if tied is None else tied.weight
        if tied is None:
            nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(
        self, x: Float[Tensor, "*B D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*B V"]:
        weight: Tensor = self.weight
        if self.padding is not None and self.training:
            # Padding is never a target, and would be taught so: keep its shared row at zero.
            at = self.padding
            weight = torch.cat([weight[:at], weight[at : at + 1].detach(), weight[at + 1 :]])
        scores = F.linear(x, weight)
        if trace is not None:
            trace.record(scores=scores)
        return scores
