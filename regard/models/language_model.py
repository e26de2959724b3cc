"""The recurrent language model: the next token after each token (many to many)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.cells import CellKind, CellState
from regard.nn.dropout import Dropout
from regard.nn.embedding import OutputProjection, TokenEmbedding, VocabularySide
from regard.nn.recurrent import Recurrent, RecurrentInit
from regard.nn.trace import Trace, at


@dataclass(frozen=True)
class LanguageState:
    """What was read so far; a step makes a new one."""

    cells: CellState
    """The state of the layers: B N D each."""

    def select(self, rows: Int[Tensor, "N"]) -> "LanguageState":
        return LanguageState(tuple(part[rows] for part in self.cells))


class RecurrentLanguageModel(nn.Module):
    """p(xₜ₊₁ | x₁ … xₜ) from a state that is carried along (Mikolov et al. 2010).

    tokens ─ embedding ─ recurrent layers ─ h₁ … h_L ─ output projection ─ logits after each token
    """

    exports: tuple[str, ...] = ()
    quantizable = False
    can_go_back = False
    """Its state cannot be cut back to fewer tokens: it is all that was read, in one vector."""
    vocabulary_parts: ClassVar[Mapping[str, VocabularySide]] = {
        "embedding": "read",
        "output": "generated",
    }
    """Its parts with one row per token or class, and whether those are read or generated."""
    max_length = math.inf
    """How many tokens it can look back at."""

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
        """The logits after each token, and the state after each row's last, to go on from.

        lengths: how many tokens of each row are real, the first ones; None: all.
        """
        hidden, state = self._read(tokens, state, lengths=lengths, trace=trace)
        return self.output(hidden, trace=at(trace, "output", rows="target")), state

    def _read(
        self,
        tokens: Int[Tensor, "B L"],
        state: CellState | None,
        *,
        lengths: Int[Tensor, "B"] | None = None,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B L D"], CellState]:
        """The hidden state after each token, and the state after each row's last."""
        embedded = self.dropout(self.embedding(tokens, trace=at(trace, "embedding", rows="target")))
        hidden, state = self.decoder(
            embedded, lengths, initial=state, trace=at(trace, "decoder", rows="target")
        )
        return self.dropout(hidden), state

    def start(
        self, prompt: Int[Tensor, "B L"], lengths: Int[Tensor, "B"] | None = None
    ) -> LanguageState:
        """The state after each row's prompt, which may be empty.

        To generate after a prompt, start with all of it but its last token, and step with that.
        """
        if prompt.size(1) == 0:  # the layers need a step to take: one that no row has
            prompt, lengths = F.pad(prompt, (0, 1)), prompt.new_zeros(prompt.size(0))
        return LanguageState(self._read(prompt, None, lengths=lengths)[1])

    def read(
        self,
        tokens: Int[Tensor, "B L"],
        state: LanguageState,
        lengths: Int[Tensor, "B"] | None = None,
    ) -> tuple[Float[Tensor, "B L D"], LanguageState]:
        """Read more tokens in each row: the hidden state after each, and the next state."""
        hidden, cells = self._read(tokens, state.cells, lengths=lengths)
        return hidden, LanguageState(cells)

    def step(
        self, tokens: Int[Tensor, "B"], state: LanguageState
    ) -> tuple[Float[Tensor, "B V"], LanguageState]:
        """Read one more token in each row: the logits of the one after it, and the next state."""
        hidden, state = self.read(tokens[:, None], state)
        return self.output(hidden[:, 0]), state
