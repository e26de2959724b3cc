"""The next token, again and again, by recurrent layers (many to many)."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.cells import CellKind, CellState
from regard.nn.dropout import Dropout
from regard.nn.embedding import OutputProjection, TokenEmbedding
from regard.nn.recurrent import Recurrent, RecurrentInit
from regard.nn.trace import Trace, at


@dataclass(frozen=True)
class LanguageState:
    """Where generation stands; a step makes a new one."""

    cells: CellState
    """Of the layers: B N D each."""
    known: Float[Tensor, "B V"] | None = None
    """The scores after the prompt, until the first step asks for them."""

    def select(self, rows: Int[Tensor, "N"]) -> "LanguageState":
        return LanguageState(
            tuple(part[rows] for part in self.cells),
            None if self.known is None else self.known[rows],
        )


class RecurrentLanguageModel(nn.Module):
    """p(xₜ₊₁ | x₁ … xₜ) from a state that is carried along (Mikolov et al. 2010).

    tokens ─ embedding ─ recurrent layers ─ h₁ … h_L ─ output projection ─ scores after each token
    """

    exports: tuple[str, ...] = ()
    quantizable = False

    def __init__(
        self,
        vocab: int,
        *,
        kind: CellKind = "lstm",
        d_model: int = 256,
        n_layers: int = 1,
        dropout: float = 0.1,
        tied: bool = True,
        recurrent_init: RecurrentInit = "orthogonal",
        padding: int | None = 0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab, d_model, padding=padding)
        self.dropout = Dropout(dropout)
        self.decoder = Recurrent(
            kind,
            d_model,
            d_model,
            n_layers=n_layers,
            dropout=dropout,
            init=recurrent_init,
            fast=fast,
        )
        self.output = OutputProjection(vocab, d_model, tied=self.embedding if tied else None)

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        state: CellState | None = None,
        *,
        lengths: Int[Tensor, "B"] | None = None,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B L V"], CellState]:
        """Scores after each token, and the state after each row's last, to go on from."""
        outputs, state = self._read(tokens, state, lengths, trace=trace)
        return self.output(outputs, trace=at(trace, "output")), state

    def _read(
        self,
        tokens: Int[Tensor, "B L"],
        state: CellState | None,
        lengths: Int[Tensor, "B"] | None,
        *,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B L D"], CellState]:
        """What is scored after each token, and the state after each row's last."""
        embedded = self.dropout(self.embedding(tokens, trace=at(trace, "embedding")))
        outputs, state = self.decoder(embedded, lengths, initial=state, trace=at(trace, "decoder"))
        return self.dropout(outputs), state

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, "B"] | None = None
    ) -> LanguageState:
        """Read the prompt."""
        if lengths is None:
            lengths = source.new_full((source.size(0),), source.size(1))
        outputs, cells = self._read(source, None, lengths)
        last = lengths - 1  # B
        ends = outputs.take_along_dim(last[:, None, None], dim=1)[:, 0]  # B D
        return LanguageState(cells, self.output(ends))

    def step(
        self, tokens: Int[Tensor, "B"], state: LanguageState
    ) -> tuple[Float[Tensor, "B V"], LanguageState]:
        """One more token a row: scores of the one after it, and the next state.

        The first step's token says only that the prompt has ended: it is not read.
        """
        if state.known is not None:
            return state.known, LanguageState(state.cells)
        scores, cells = self(tokens[:, None], state.cells)
        return scores[:, 0], LanguageState(cells)
