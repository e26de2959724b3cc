"""One recurrent layer in one direction, by its written-out cell: the reference path."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.nn.cells import STEPS, CellKind, CellState, CellWeights
from regard.nn.trace import Trace


def run_step_by_step(
    x: Float[Tensor, "B L I"],
    state: CellState,
    weights: CellWeights,
    *,
    kind: CellKind,
    real: Bool[Tensor, "B L"],
    reverse: bool,
    trace: Trace | None,
    **options: str,
) -> tuple[Float[Tensor, "B L D"], CellState]:
    """The outputs (zeros in padding) and the final state, which does not change in padding.

    real: True where a step is not padding. options: the cell's own.
    """
    L = x.size(1)
    outputs: list[Tensor] = [x.new_empty(0)] * L
    records: list[dict[str, Tensor]] = [{}] * L
    for step in reversed(range(L)) if reverse else range(L):
        step_trace = None if trace is None else Trace()
        new_state = STEPS[kind](x[:, step], state, weights, trace=step_trace, **options)
        is_real = real[:, step, None]  # B 1
        state = tuple(
            torch.where(is_real, new, old) for new, old in zip(new_state, state, strict=True)
        )
        outputs[step] = new_state[0] * is_real
        if step_trace is not None:
            records[step] = step_trace[""]
    if trace is not None:
        trace.record(
            **{name: torch.stack([record[name] for record in records], 1) for name in records[0]}
        )
    return torch.stack(outputs, dim=1), state
