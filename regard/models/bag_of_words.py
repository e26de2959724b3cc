"""A bag of words: a text as the sum of its words' vectors, whatever their order."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.text_encoder import Encoded
from regard.nn.embedding import TokenEmbedding
from regard.nn.trace import Trace, at

BagKind = Literal["counts", "presence"]
KINDS: tuple[BagKind, ...] = get_args(BagKind)

FACTOR = 1_000_003
"""A prime: the pair of tokens (a, b) has the row (FACTOR · a + b) mod bigrams."""


class BagOfWords(nn.Module):
    """Σ E[w] over the words of a text: under a linear layer, a linear model of which words it has.

        counts      a word counts as often as it stands there
        presence    a word counts once (Wang & Manning 2012, §3.4, where this did better)

    It is the baseline that other encoders have to beat. The embedding and the linear layer after it
    are one matrix in two factors, as in fastText (Joulin et al. 2017, §2).

    bigrams: rows for pairs of neighbouring words, which share them by a hash (§2.2 there); 0: none.
    padding: the token whose embedding stays zero; None: every token's is learned.
    """

    framed = False

    def __init__(
        self,
        vocab: int,
        *,
        d_model: int = 64,
        kind: BagKind = "presence",
        bigrams: int = 0,
        padding: int | None = 0,
    ) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is not one of {', '.join(KINDS)}")
        self.d_model = d_model
        self.kind: BagKind = kind
        self.embedding = _small(vocab, d_model, padding=padding)
        self.bigrams = _small(bigrams, d_model, padding=None) if bigrams else None

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Encoded:
        """The hidden state of a word is what it adds to the sum; segments are not used."""
        if lengths is None:
            lengths = tokens.new_full((tokens.size(0),), tokens.size(1))
        places = torch.arange(tokens.size(1), device=tokens.device)
        hidden = self._added(
            self.embedding, tokens, places < lengths[:, None], trace=at(trace, "embedding")
        )
        if self.bigrams is not None:
            rows = (FACTOR * tokens + tokens.roll(-1, dims=1)) % self.bigrams.weight.size(0)
            has_next = places + 1 < lengths[:, None]  # B L
            hidden = hidden + self._added(self.bigrams, rows, has_next, trace=at(trace, "bigrams"))
        return Encoded(hidden, hidden.sum(dim=1))

    def _added(
        self,
        embedding: TokenEmbedding,
        rows: Int[Tensor, "B L"],
        real: Bool[Tensor, "B L"],
        *,
        trace: Trace | None,
    ) -> Float[Tensor, "B L D"]:
        """The vectors of the rows that count, and zeros for the others."""
        counted = real if self.kind == "counts" else first_of_each(rows, real)
        vectors: Tensor = embedding(rows, trace=trace)
        return vectors * counted[:, :, None]


def first_of_each(rows: Int[Tensor, "B L"], real: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
    """Whether an id stands in its row for the first time."""
    ordered, places = rows.masked_fill(~real, -1).sort(dim=1, stable=True)
    new = torch.ones_like(real)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.zeros_like(real).scatter(1, places, new) & real


def _small(rows: int, d_model: int, *, padding: int | None) -> TokenEmbedding:
    """Between −1/D and 1/D, so that a word that was seldom seen adds little."""
    embedding = TokenEmbedding(rows, d_model, padding=padding, scaled=False)
    with torch.no_grad():
        embedding.weight.uniform_(-1 / d_model, 1 / d_model)
        if padding is not None:
            embedding.weight[padding] = 0
    return embedding
