"""One recurrent layer in one direction over a padded batch, by a kernel for CPUs."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.nn.cells import GATES, CellKind, CellState, CellWeights, Nonlinearity
from regard.nn.through_time import through_time

SATURATING = 1e4
"""σ(−SATURATING) = 0 and σ(SATURATING) = 1, whatever the state adds to a gate's input."""


def run_padded(
    x: Float[Tensor, "B L I"],
    state: CellState,
    weights: CellWeights,
    *,
    kind: CellKind,
    real: Bool[Tensor, "B L"] | None,
    training: bool,
    nonlinearity: Nonlinearity | None = None,
) -> tuple[Float[Tensor, "B L D"], tuple[Tensor, ...]]:
    """The outputs of every step and, for an LSTM, the cell state after each row's last real step.

    real: True where a step is not padding; None: there is no padding.
    """
    if kind != "lstm":
        return through_time(x, state[0], weights, nonlinearity=nonlinearity), ()
    stacked = [weights.input, weights.hidden, weights.input_bias, weights.hidden_bias]
    if real is not None:
        # The kernel returns the cell state after the last step only. One more input, 1 in padding,
        # closes the input gate and opens the forget gate, so that padding leaves it unchanged.
        padding_weight = weights.input.new_zeros(weights.input.size(0), 1)
        for gate, block in zip(GATES["lstm"], padding_weight.chunk(4), strict=True):
            block.fill_({"input": -SATURATING, "forget": SATURATING}.get(gate, 0.0))
        stacked[0] = torch.cat([weights.input, padding_weight], dim=1)
        x = torch.cat([x, (~real)[:, :, None].to(x.dtype)], dim=-1)
    start = [part[None].contiguous() for part in state]  # 1 B D
    options = (True, 1, 0.0, training, False, True)  # one layer with biases, batch first
    outputs, _, cell_state = torch.lstm(x, start, stacked, *options)
    return outputs, (cell_state[0],)
