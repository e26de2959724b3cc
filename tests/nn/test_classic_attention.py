"""Bahdanau's and Luong's attention: by hand, and against each other where they coincide."""

import pytest
import torch

from regard.nn import ClassicAttention, Trace
from regard.nn.classic_attention import KINDS


def test_bahdanau_by_hand() -> None:
    layer = ClassicAttention("bahdanau", 2, 2)
    with torch.no_grad():
        layer.query.weight.copy_(torch.eye(2))
        layer.memory.weight.copy_(2 * torch.eye(2))
        layer.v.copy_(torch.tensor([1.0, -1.0]))
    query, memory = torch.tensor([[0.5, 0.0]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    context, weights = layer(query, layer.remember(memory))
    scores = (
        torch.tensor([2.5, 0.0]).tanh().dot(layer.v),
        torch.tensor([0.5, 2.0]).tanh().dot(layer.v),
    )
    expected = torch.softmax(torch.stack(scores), dim=0)
    torch.testing.assert_close(weights[0], expected)
    torch.testing.assert_close(context[0], expected)


def test_dot_by_hand() -> None:
    layer = ClassicAttention("luong-dot", 2, 2)
    query, memory = torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    _, weights = layer(query, layer.remember(memory))
    torch.testing.assert_close(weights[0], torch.softmax(torch.tensor([1.0, 2.0]), dim=0))


def test_general_by_hand() -> None:
    layer = ClassicAttention("luong-general", 2, 3)
    query, memory = torch.randn(1, 2), torch.randn(1, 4, 3)
    scores = [query[0] @ layer.memory.weight @ memory[0, s] for s in range(4)]
    _, weights = layer(query, layer.remember(memory))
    torch.testing.assert_close(weights[0], torch.softmax(torch.stack(scores), dim=0))


def test_general_with_the_identity_is_dot() -> None:
    dot, general = ClassicAttention("luong-dot", 3, 3), ClassicAttention("luong-general", 3, 3)
    with torch.no_grad():
        general.memory.weight.copy_(torch.eye(3))
    query, memory = torch.randn(2, 3), torch.randn(2, 5, 3)
    for one, other in zip(
        dot(query, dot.remember(memory)), general(query, general.remember(memory)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_concat_is_bahdanau_with_both_matrices_side_by_side() -> None:
    additive, concat = ClassicAttention("bahdanau", 3, 4), ClassicAttention("luong-concat", 3, 4)
    with torch.no_grad():
        concat.both.weight.copy_(torch.cat([additive.query.weight, additive.memory.weight], dim=1))
        concat.v.copy_(additive.v)
    query, memory = torch.randn(2, 3), torch.randn(2, 5, 4)
    for one, other in zip(
        additive(query, additive.remember(memory)),
        concat(query, concat.remember(memory)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_gets_no_weight_and_an_empty_memory_gives_zeros(kind) -> None:
    layer, query, memory = ClassicAttention(kind, 3, 3), torch.randn(3, 3), torch.randn(3, 5, 3)
    mask = torch.arange(5)[None] < torch.tensor([5, 2, 0])[:, None]
    trace = Trace()
    context, weights = layer(query, layer.remember(memory), mask=mask, trace=trace.at("attention"))
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1.0, 0.0]))
    assert weights[~mask].abs().sum() == 0
    assert context[2].abs().sum() == 0
    alone, _ = layer(query[1:2], layer.remember(memory[1:2, :2]))
    torch.testing.assert_close(context[1], alone[0], atol=1e-6, rtol=1e-5)
    assert trace["attention"]["weights"].shape == (3, 1, 1, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_remembered_can_be_selected(kind) -> None:
    layer, query, memory = ClassicAttention(kind, 3, 3), torch.randn(2, 3), torch.randn(2, 4, 3)
    rows = torch.tensor([1, 1])
    context, _ = layer(query[rows], layer.remember(memory).select(rows))
    torch.testing.assert_close(context[0], layer(query, layer.remember(memory))[0][1])


def test_dot_needs_equal_widths() -> None:
    with pytest.raises(ValueError, match="equal width, not 3 and 4"):
        ClassicAttention("luong-dot", 3, 4)
