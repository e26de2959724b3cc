"""From token ids to vectors and back: embeddings and the output projection."""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.norms import Norm
from regard.nn.positions import LearnedPositions, SinusoidalPositions, first_positions
from regard.nn.trace import Trace, at


class TokenEmbedding(nn.Module):
    """E[token] · √D (Vaswani et al. 2017, §3.4), or E[token] if not scaled.

    Rows start with variance 1/D, which suits the output projection that may share them; √D brings
    them to the size of the positions that are added next.

    padding: the id whose row is zero and stays so; None: every id is a token.
    """

    def __init__(
        self, vocab: int, d_model: int, *, padding: int | None, scaled: bool = True
    ) -> None:
        super().__init__()
        self.padding = padding
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.weight = nn.Parameter(torch.empty(vocab, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        if padding is not None:
            with torch.no_grad():
                self.weight[padding] = 0

    def forward(
        self, tokens: Int[Tensor, "B L"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B L D"]:
        # padding_idx keeps the gradient of that row at zero, so it stays what it was made.
        output = F.embedding(tokens, self.weight, padding_idx=self.padding)
        if self.scale != 1.0:
            output = output * self.scale
        if trace is not None:
            trace.record(tokens=tokens, output=output)
        return output


VocabularySide = Literal["read", "generated"]
"""Which vocabulary the rows of a weight belong to: that of what goes in or of what comes out."""

Tying = Literal["none", "output", "all"]
"""One weight for the output and the target's embedding, and for the source's too."""


def check_tying(tie_embeddings: Tying, src_vocab: int, tgt_vocab: int) -> None:
    """Refuse to share one weight between two vocabularies."""
    if tie_embeddings == "all" and src_vocab != tgt_vocab:
        raise ValueError(
            f"tie_embeddings='all' needs one vocabulary, and there are {src_vocab} source and "
            f"{tgt_vocab} target tokens; 'output' ties only the target side"
        )


class Embedding(nn.Module):
    """Dropout(token + position): the input of the first layer of an encoder or decoder.

    Without positions, where attention has its own. BERT's is Dropout(Norm(token + position +
    segment)) (Devlin et al. 2019, fig. 2): a segment says which of two texts a token belongs to.
    """

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: SinusoidalPositions | LearnedPositions | None,
        *,
        segments: TokenEmbedding | None = None,
        norm: Norm | None = None,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Int[Tensor, "#B L"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B L D"]:
        """positions: where each token stands in its row; None: 0, 1, 2, …

        segments: which text each token belongs to; None: all to the first.
        """
        embedded = self.tokens(tokens, trace=at(trace, "tokens"))  # B L D
        if self.positions is not None:
            if positions is None:
                positions = first_positions(tokens.size(1), device=tokens.device)
            embedded = embedded + self.positions(positions, trace=at(trace, "positions"))
        if self.segments is not None:
            if segments is None:
                segments = torch.zeros_like(tokens)
            embedded = embedded + self.segments(segments, trace=at(trace, "segments"))
        if self.norm is not None:
            embedded = self.norm(embedded, trace=at(trace, "norm"))
        output = self.dropout(embedded)
        if trace is not None:
            trace.record(output=output)
        return output


class _RowWithoutGradient(torch.autograd.Function):
    """The same weight, one row of which gets no gradient; nothing is copied either way."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, row: int) -> Tensor:
        ctx.row = row
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient[ctx.row] = 0  # made by the product just before, and nobody else's
        return gradient, None


class OutputProjection(nn.Module):
    """x Wᵀ: the logit of every token; W its own, or the embedding's (Press & Wolf 2017).

    bias: x Wᵀ + b; how frequent a token is, whatever stands before it.
    """

    def __init__(
        self, vocab: int, d_model: int, *, tied: TokenEmbedding | None = None, bias: bool = False
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None
        self.padding = None if tied is None else tied.padding
        self.weight = nn.Parameter(torch.empty(vocab, d_model)) if tied is None else tied.weight
        if tied is None:
            nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(
        self, x: Float[Tensor, "*B D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*B V"]:
        weight: Tensor = self.weight
        if self.padding is not None and torch.is_grad_enabled():
            # Padding is never a target, and would be taught so: keep its shared row at zero.
            weight = _RowWithoutGradient.apply(weight, self.padding)  # type: ignore[no-untyped-call]
        logits = F.linear(x, weight, self.bias)
        if trace is not None:
            trace.record({"logits": "BTV"}, logits=logits)
        return logits
