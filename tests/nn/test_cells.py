"""Cells by their formulas, and equal to torch's."""

import pytest
import torch
from torch import nn

from regard.nn import Cell, Trace
from regard.nn.cells import GATES
from regard.verify.check import largest_with_gradients

TORCH = {
    ("rnn", "tanh"): nn.RNNCell(5, 4),
    ("rnn", "relu"): nn.RNNCell(5, 4, nonlinearity="relu"),
    ("gru", "tanh"): nn.GRUCell(5, 4),
    ("lstm", "tanh"): nn.LSTMCell(5, 4),
}


@pytest.mark.parametrize(("kind", "nonlinearity"), TORCH)
def test_a_cell_equals_torch_s_forward_and_gradient(kind, nonlinearity) -> None:
    ours, theirs = Cell(kind, 5, 4, nonlinearity=nonlinearity), TORCH[kind, nonlinearity]
    ours.load_state_dict(theirs.state_dict())
    inputs = [torch.randn(3, 5), *(torch.randn(3, 4) for _ in range(2 if kind == "lstm" else 1))]

    def by_torch(x: list[torch.Tensor]) -> torch.Tensor:
        state = theirs(x[0], (x[1], x[2]) if kind == "lstm" else x[1])
        return torch.cat(state if kind == "lstm" else (state,), dim=-1)

    weights = [(p, dict(theirs.named_parameters())[name]) for name, p in ours.named_parameters()]
    assert len(weights) == 4
    difference = largest_with_gradients(
        lambda x: torch.cat(ours(x[0], tuple(x[1:])), dim=-1), by_torch, inputs, weights
    )
    assert difference <= 1e-6


@pytest.mark.parametrize("kind", GATES)
def test_gates_are_recorded_by_name(kind) -> None:
    trace = Trace()
    state = Cell(kind, 5, 4)(torch.randn(3, 5), trace=trace.at("cell"))
    record = trace["cell"]
    assert set(GATES[kind]) <= record.keys()
    assert all(gate.shape == (3, 4) for gate in record.values())
    assert record["hidden"].equal(state[0].detach())
    assert kind != "lstm" or record["cell_state"].equal(state[1].detach())
    for name in {"input", "forget", "output", "reset", "update"} & record.keys():
        assert 0 < record[name].min() <= record[name].max() < 1


def test_an_open_forget_gate_and_a_closed_input_gate_keep_the_cell_state() -> None:
    cell = Cell("lstm", 2, 3)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        cell.bias_ih[:3], cell.bias_ih[3:6] = -50.0, 50.0  # input shut, forget open
    cell_state = torch.randn(1, 3)
    _, after = cell(torch.randn(1, 2), (torch.randn(1, 3), cell_state))
    torch.testing.assert_close(after, cell_state)
