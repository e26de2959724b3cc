"""Dropout: the rate of zeros is as given, and the other values are scaled up."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn.dropout import Dropout, dropout


@given(rate=st.floats(0.01, 0.9), shape=st.sampled_from([(7,), (3, 5), (2, 3, 1), (0, 4)]))
def test_a_number_is_zero_or_grown_and_its_gradient_too(rate: float, shape) -> None:
    x = torch.rand(shape) + 0.5
    x.requires_grad_()
    output = dropout(x, rate)
    output.sum().backward()
    grown = 1 / (1 - round(rate * 2**16) / 2**16)
    kept = output != 0
    torch.testing.assert_close(output[kept], x[kept] * grown)
    torch.testing.assert_close(x.grad, kept * grown)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_rate_and_the_mean_are_what_torch_has(rate: float) -> None:
    torch.manual_seed(0)
    ones = torch.ones(400, 1000)
    for output in (dropout(ones, rate), torch.nn.functional.dropout(ones, rate)):
        assert (output == 0).float().mean().item() == pytest.approx(rate, abs=0.003)
        assert output.mean().item() == pytest.approx(1, abs=0.005)
    rows = (dropout(ones, rate) == 0).float()
    assert rows.mean(0).std().item() == pytest.approx((rate * (1 - rate) / 400) ** 0.5, rel=0.1)
    neighbours = (rows[:, :-1] * rows[:, 1:]).mean().item()
    assert neighbours == pytest.approx(rate**2, rel=0.05)  # drawn apart, though four share a draw


def test_it_is_a_function_of_the_seed_and_of_nothing_when_evaluating() -> None:
    x, part = torch.randn(50), Dropout(0.5)
    torch.manual_seed(1)
    first = part(x)
    torch.manual_seed(1)
    assert part(x).equal(first)
    assert not part(x).equal(first)
    assert part.eval()(x).equal(x)
    with pytest.raises(ValueError, match=r"dropout=1.0 must be at least 0"):
        Dropout(1.0)
