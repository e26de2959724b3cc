"""Pooling, by hand."""

import pytest
import torch

from regard.nn import Pooling, Trace

OUTPUTS = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]], [[5.0, 6.0], [7.0, 7.0], [8.0, 8]]])
FINAL = torch.tensor([[3.0, -2.0], [5.0, 6.0]])
MASK = torch.tensor([[True, True, False], [True, False, False]])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("final", FINAL.tolist()),
        ("mean", [[2.0, -3.0], [5.0, 6.0]]),
        ("max", [[3.0, -2.0], [5.0, 6.0]]),
    ],
)
def test_padding_takes_no_part(kind: str, expected: list) -> None:
    assert Pooling(kind, 2)(OUTPUTS, FINAL, MASK).tolist() == expected


def test_attention_weighs_real_steps_alone() -> None:
    pooling, trace = Pooling("attention", 2), Trace()
    pooled = pooling(OUTPUTS, FINAL, MASK, trace=trace)
    scores = pooling.query(OUTPUTS)[0, :2, 0]
    expected = scores.softmax(0) @ OUTPUTS[0, :2]
    torch.testing.assert_close(pooled, torch.stack([expected, OUTPUTS[1, 0]]))
    assert trace.attention()[""].shape == (2, 1, 1, 3)


@pytest.mark.parametrize("kind", ["mean", "max", "attention"])
def test_an_empty_sequence_pools_to_zeros_forward_and_backward(kind: str) -> None:
    outputs = OUTPUTS.clone().requires_grad_()
    mask = torch.tensor([[False] * 3, [True] * 3])
    pooled = Pooling(kind, 2)(outputs, FINAL, mask)
    pooled.sum().backward()
    assert pooled[0].tolist() == [0.0, 0.0]
    assert outputs.grad is not None
    assert outputs.grad[0].abs().sum() == 0
    assert outputs.grad.isfinite().all()
