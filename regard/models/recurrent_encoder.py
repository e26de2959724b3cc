"""Recurrent layers that read a text whole: what recurrent classifiers and taggers are built on."""

from jaxtyping import Int
from torch import Tensor, nn

from regard.models.text_encoder import Encoded
from regard.nn.cells import CellKind
from regard.nn.dropout import Dropout
from regard.nn.embedding import TokenEmbedding
from regard.nn.recurrent import RecurrentInit, encoder
from regard.nn.trace import Trace, at


class RecurrentBody(nn.Module):
    """A state for every token of a text: the part that all models have that only read.

        tokens ─ embedding ─ recurrent layers ─ h₁ … h_L

    A bidirectional one gives half of d_model to each direction; its summary is the state of both at
    their own last step: the end for the one, the beginning for the other.

    padding: the token whose embedding stays zero; None: every token's is learned.
    """

    def __init__(
        self,
        vocab: int,
        *,
        kind: CellKind = "lstm",
        d_model: int = 64,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.1,
        recurrent_init: RecurrentInit = "orthogonal",
        padding: int | None = 0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        self.d_model = d_model
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

    def states(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> Encoded:
        """The states of all tokens, and the last; lengths: how many are real, None: all."""
        if lengths is None:
            lengths = tokens.new_full((tokens.size(0),), tokens.size(1))
        embedded = self.dropout(self.embedding(tokens, trace=at(trace, "embedding")))
        outputs, state = self.encoder(embedded, lengths, trace=at(trace, "encoder"))
        last = state[0][:, -self.encoder.directions :].flatten(1)  # B D: the last layer's
        return Encoded(outputs, last)


class RecurrentEncoder(RecurrentBody):
    """These states alone, for heads of any task."""

    framed = False

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        segments: Int[Tensor, "B L"] | None = None,
        trace: Trace | None = None,
    ) -> Encoded:
        """segments are not used: `</s>` between two texts tells them apart."""
        return self.states(tokens, lengths, trace=trace)
