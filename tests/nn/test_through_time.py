"""Back-propagation through time, written out: torch's kernels and numerical gradients agree."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.nn import Recurrent
from regard.nn.cells import CellWeights
from regard.nn.through_time import through_time

CELLS = {
    "rnn tanh": (nn.RNN, {"nonlinearity": "tanh"}),
    "rnn relu": (nn.RNN, {"nonlinearity": "relu"}),
    "gru": (nn.GRU, {}),
}


def of_torch(name: str) -> tuple[nn.Module, CellWeights, dict]:
    """A kernel of torch's in double precision, its weights, and the options of the cell."""
    kind, options = CELLS[name]
    kernel = kind(5, 4, batch_first=True, **options).double()
    return kernel, CellWeights(*kernel.parameters()), options


@pytest.mark.parametrize("name", CELLS)
@given(rows=st.integers(1, 4), length=st.integers(1, 7))
def test_outputs_and_gradients_equal_those_of_torchs_kernel(name, rows, length) -> None:
    torch.manual_seed(rows + 10 * length)
    kernel, weights, options = of_torch(name)
    both = []
    for way in (
        lambda x, start: kernel(x, start[None])[0],
        lambda x, start: through_time(x, start, weights, **options),
    ):
        torch.manual_seed(1)
        x, start = (
            torch.randn(shape, dtype=torch.double, requires_grad=True)
            for shape in ((rows, length, 5), (rows, 4))
        )
        kernel.zero_grad()
        outputs = way(x, start)
        outputs.backward(torch.randn_like(outputs))
        gradients = [weight.grad.clone() for weight in kernel.parameters()]
        both.append([outputs, x.grad, start.grad, *gradients])
    for expected, ours in zip(*both, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("name", CELLS)
def test_gradients_are_what_small_changes_show(name) -> None:
    torch.manual_seed(3)
    _, weights, options = of_torch(name)
    x = torch.randn(2, 3, 5, dtype=torch.double, requires_grad=True)
    start = torch.randn(2, 4, dtype=torch.double, requires_grad=True)
    parts = (weights.input, weights.hidden, weights.input_bias, weights.hidden_bias)

    def way(x, start, *parts):
        return through_time(x, start, CellWeights(*parts), **options)

    assert torch.autograd.gradcheck(way, (x, start, *parts))


@pytest.mark.parametrize("kind", ["rnn", "gru"])
def test_second_derivatives_are_refused_and_not_left_out(kind) -> None:
    layer, x = Recurrent(kind, 5, 4), torch.randn(2, 3, 5, requires_grad=True)
    with pytest.raises(RuntimeError, match="fast=False"):
        torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    layer.fast = False
    (slope,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert layer.layers.weight_ih_l0.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ["rnn", "gru"])
def test_frozen_weights_and_strided_inputs_change_nothing(kind) -> None:
    layer, x = Recurrent(kind, 5, 4), torch.randn(3, 2, 5).transpose(0, 1).requires_grad_()
    slope = torch.autograd.grad(layer(x)[0].square().sum(), x)[0]
    layer.requires_grad_(False)
    again = x.detach().contiguous().requires_grad_()
    layer(again)[0].square().sum().backward()
    torch.testing.assert_close(again.grad, slope)


@pytest.mark.parametrize("kind", ["rnn", "gru"])
def test_in_low_precision_it_stays_in_float32(kind) -> None:
    """A product that writes into a block of float32 cannot be one of bfloat16."""
    layer, x = Recurrent(kind, 5, 4), torch.randn(2, 3, 5)
    expected, _ = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = layer(x.bfloat16())
    outputs.sum().backward()
    assert outputs.dtype == torch.float32
    torch.testing.assert_close(outputs, expected, atol=2e-2, rtol=2e-2)
    assert all(weight.grad.dtype == torch.float32 for weight in layer.parameters())
