"""Recurrent cells, written out from their formulas: RNN, GRU, LSTM.

Each computes one step: from an input x (B I) and a state, the next state. The first tensor of a
state is the hidden state h (B D), which is also the cell's output; an LSTM also has a cell state
c (B D). Weights have torch's layout: the matrices of the gates, stacked in the order of `GATES`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.trace import Trace

CellKind = Literal["rnn", "gru", "lstm"]
Nonlinearity = Literal["tanh", "relu"]
CellState = tuple[Tensor, ...]

GATES: dict[str, tuple[str, ...]] = {
    "rnn": ("hidden",),
    "gru": ("reset", "update", "new"),
    "lstm": ("input", "forget", "cell", "output"),
}
"""The gates of each cell, in the order in which their weights are stacked."""


def check_kind(kind: str) -> None:
    """Raise ValueError if there is no cell of this kind."""
    if kind not in GATES:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(GATES)}")


@dataclass(frozen=True)
class CellWeights:
    """W (of the input), U (of the hidden state) and their biases, with the gates stacked."""

    input: Float[Tensor, "G I"]
    hidden: Float[Tensor, "G D"]
    input_bias: Float[Tensor, "G"]
    hidden_bias: Float[Tensor, "G"]

    def gates(
        self, x: Float[Tensor, "B I"], h: Float[Tensor, "B D"], count: int
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """W x + b and U h + b', each split into one tensor B D per gate."""
        from_input = x @ self.input.T + self.input_bias  # B G
        from_hidden = h @ self.hidden.T + self.hidden_bias  # B G
        return from_input.chunk(count, dim=-1), from_hidden.chunk(count, dim=-1)


def rnn_step(
    x: Float[Tensor, "B I"],
    state: CellState,
    weights: CellWeights,
    *,
    nonlinearity: Nonlinearity = "tanh",
    trace: Trace | None = None,
) -> CellState:
    """h' = tanh(W x + b + U h + b') (Elman 1990)."""
    (from_input,), (from_hidden,) = weights.gates(x, state[0], 1)
    hidden = {"tanh": torch.tanh, "relu": torch.relu}[nonlinearity](from_input + from_hidden)
    if trace is not None:
        trace.record(hidden=hidden)
    return (hidden,)


def gru_step(
    x: Float[Tensor, "B I"], state: CellState, weights: CellWeights, *, trace: Trace | None = None
) -> CellState:
    """h' = (1 − z) ⊙ n + z ⊙ h (Cho et al. 2014), with

        r = σ(W_r x + U_r h)             reset: how much of h the new value depends on
        z = σ(W_z x + U_z h)             update: how much of h is kept
        n = tanh(W_n x + r ⊙ (U_n h))    new: the new value

    Biases are left out above. r multiplies U_n h together with its bias, as in torch and cuDNN.
    """
    (h,) = state
    (xr, xz, xn), (hr, hz, hn) = weights.gates(x, h, 3)
    reset, update = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    new = torch.tanh(xn + reset * hn)
    hidden = (1 - update) * new + update * h
    if trace is not None:
        trace.record(reset=reset, update=update, new=new, hidden=hidden)
    return (hidden,)


def lstm_step(
    x: Float[Tensor, "B I"], state: CellState, weights: CellWeights, *, trace: Trace | None = None
) -> CellState:
    """c' = f ⊙ c + i ⊙ g and h' = o ⊙ tanh(c') (Hochreiter & Schmidhuber 1997; Gers 2000), with

        i = σ(W_i x + U_i h)       input: how much of g is added to the cell state
        f = σ(W_f x + U_f h)       forget: how much of c is kept
        g = tanh(W_g x + U_g h)    cell: the candidate for the cell state
        o = σ(W_o x + U_o h)       output: how much of c' is in the hidden state

    Biases are left out above.
    """
    h, c = state
    (xi, xf, xg, xo), (hi, hf, hg, ho) = weights.gates(x, h, 4)
    i, f, o = torch.sigmoid(xi + hi), torch.sigmoid(xf + hf), torch.sigmoid(xo + ho)
    g = torch.tanh(xg + hg)
    cell_state = f * c + i * g
    hidden = o * torch.tanh(cell_state)
    if trace is not None:
        trace.record(input=i, forget=f, cell=g, output=o, cell_state=cell_state, hidden=hidden)
    return hidden, cell_state


STEPS: dict[str, Callable[..., CellState]] = {"rnn": rnn_step, "gru": gru_step, "lstm": lstm_step}


def zero_state(kind: CellKind, like: Tensor, rows: int, width: int) -> CellState:
    """The state before the first step: zeros."""
    zero = like.new_zeros(rows, width)
    return (zero, zero) if kind == "lstm" else (zero,)


class Cell(nn.Module):
    """One cell with its own weights: `cell(x, state) -> state`."""

    def __init__(
        self,
        kind: CellKind,
        d_input: int,
        d_model: int,
        *,
        nonlinearity: Nonlinearity = "tanh",
    ) -> None:
        super().__init__()
        check_kind(kind)
        self.kind: CellKind = kind
        self.d_model = d_model
        self.options = {"nonlinearity": nonlinearity} if kind == "rnn" else {}
        stacked, bound = len(GATES[kind]) * d_model, 1 / math.sqrt(d_model)

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

        self.weight_ih, self.weight_hh = weight(stacked, d_input), weight(stacked, d_model)
        self.bias_ih, self.bias_hh = weight(stacked), weight(stacked)

    def forward(
        self,
        x: Float[Tensor, "B I"],
        state: CellState | None = None,
        *,
        trace: Trace | None = None,
    ) -> CellState:
        if state is None:
            state = zero_state(self.kind, x, x.size(0), self.d_model)
        weights = CellWeights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return STEPS[self.kind](x, state, weights, trace=trace, **self.options)
