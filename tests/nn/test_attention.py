"""Attention: what its formula says, and what its two paths agree on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn import (
    CrossAttention,
    KVCache,
    MultiHeadAttention,
    SelfAttention,
    SingleHeadAttention,
    Trace,
    attend,
    attend_fast,
    causal_mask,
    masked_softmax,
)


def test_attend_by_hand() -> None:
    query = torch.tensor([[[[1.0, 0.0]]]])
    key = torch.tensor([[[[2.0, 0.0], [0.0, 3.0]]]])
    value = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    output, weights = attend(query, key, value)
    expected = torch.softmax(torch.tensor([2.0 / 2**0.5, 0.0]), dim=0)
    torch.testing.assert_close(weights[0, 0, 0], expected)
    torch.testing.assert_close(output[0, 0, 0], expected)


@given(
    B=st.integers(1, 3),
    H=st.integers(1, 3),
    T=st.integers(1, 5),
    S=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)
def test_fast_attention_equals_reference_under_any_mask(B, H, T, S, seed) -> None:
    torch.manual_seed(seed)
    inputs = [torch.randn(B, H, length, 4) for length in (T, S, S)]
    mask = torch.rand(B, H, T, S) < 0.6  # rows with nothing to attend to among them
    outputs = []
    for function in (lambda *x: attend(*x, mask)[0], lambda *x: attend_fast(*x, mask)):
        leaves = [x.clone().requires_grad_() for x in inputs]
        output = function(*leaves)
        output.square().sum().backward()
        outputs.append([output, *(leaf.grad for leaf in leaves)])
    for reference, fast in zip(*outputs, strict=True):
        torch.testing.assert_close(fast, reference, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("path", [lambda *x: attend(*x)[0], attend_fast])
def test_a_row_with_nothing_to_attend_to_is_zero_forward_and_backward(path) -> None:
    query, key, value = (torch.randn(1, 2, 3, 4, requires_grad=True) for _ in range(3))
    mask = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    mask[:, :, 1] = False
    output = path(query, key, value, mask)
    output.sum().backward()
    assert output[:, :, 1].abs().max() == 0
    assert query.grad[:, :, 1].abs().max() == 0
    for leaf in (query, key, value):
        assert leaf.grad.isfinite().all()


def test_all_rows_masked_gives_zero_gradients_everywhere() -> None:
    query, key, value = (torch.randn(1, 1, 2, 4, requires_grad=True) for _ in range(3))
    attend(query, key, value, torch.zeros(2, 2, dtype=torch.bool))[0].sum().backward()
    assert all(leaf.grad.abs().max() == 0 for leaf in (query, key, value))


def test_softmax_is_computed_in_float32_under_low_precision() -> None:
    scores = torch.randn(1, 1, 1, 4096).bfloat16() * 4
    weights = masked_softmax(scores)
    exact = torch.softmax(scores.float(), -1)
    assert weights.dtype == torch.bfloat16
    assert weights.equal(exact.bfloat16())


@pytest.mark.parametrize("fast", [True, False])
def test_multi_head_attention_is_single_heads_side_by_side(fast: bool) -> None:
    x = torch.randn(2, 5, 12)
    many = SelfAttention(12, 3, fast=fast)
    heads = [SingleHeadAttention(12, 4) for _ in range(3)]
    wq, wk, wv = many.projection.weight.detach().chunk(3)
    bq, bk, bv = many.projection.bias.detach().chunk(3)
    for number, head in enumerate(heads):
        rows = slice(4 * number, 4 * number + 4)
        for layer, weight, bias in (
            (head.query, wq, bq),
            (head.key, wk, bk),
            (head.value, wv, bv),
        ):
            layer.weight.data, layer.bias.data = weight[rows], bias[rows]
    mask = causal_mask(5)
    joined = torch.cat([head(x, mask=mask[None]) for head in heads], dim=-1)
    torch.testing.assert_close(many(x, mask=mask), many.output(joined), atol=1e-6, rtol=1e-5)


def test_single_head_cross_attention_reads_the_memory() -> None:
    head = SingleHeadAttention(6, 4)
    trace = Trace()
    output = head(torch.randn(2, 3, 6), torch.randn(2, 5, 6), trace=trace)
    assert output.shape == (2, 3, 4)
    assert trace[""]["weights"].shape == (2, 3, 5)


def test_general_form_equals_self_and_cross_attention() -> None:
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    itself, cross, general = SelfAttention(8, 2), CrossAttention(8, 2), MultiHeadAttention(8, 2)
    general.load_state_dict(itself.state_dict())
    torch.testing.assert_close(itself(x), general(x, x, x))
    general.load_state_dict(cross.state_dict())
    torch.testing.assert_close(cross(x, memory), general(x, memory, memory))


def test_attention_without_bias_has_none() -> None:
    attention = SelfAttention(8, 2, bias=False)
    assert [name for name, _ in attention.named_parameters()] == [
        "projection.weight",
        "output.weight",
    ]
    assert attention(torch.randn(1, 3, 8)).shape == (1, 3, 8)


@pytest.mark.parametrize("fast", [True, False])
def test_attention_dropout_acts_in_training_alone(fast: bool) -> None:
    attention, x = SelfAttention(8, 2, dropout=0.5, fast=fast), torch.randn(1, 6, 8)
    attention.train()
    assert not attention(x).equal(attention(x))
    attention.eval()
    assert attention(x).equal(attention(x))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"d_model=10 .* n_heads=4"):
        MultiHeadAttention(10, 4)


@given(parts=st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_self_attention_with_a_cache_equals_without(parts: list[int]) -> None:
    torch.manual_seed(1)
    attention, length = SelfAttention(8, 2).eval(), sum(parts)
    x = torch.randn(2, length, 8)
    whole = attention(x, mask=causal_mask(length))
    cache, result = KVCache(), []
    for new in x.split(parts, dim=1):
        mask = causal_mask(new.size(1), cache.length)
        result.append(attention(new, mask=mask, cache=cache))
    torch.testing.assert_close(torch.cat(result, dim=1), whole, atol=1e-5, rtol=1e-5)


def test_a_cache_selects_repeats_and_drops_rows() -> None:
    cache = KVCache()
    key = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 2, 4, 5)
    cache.append(key, -key)
    chosen = cache.select(torch.tensor([2, 2, 0]))
    assert chosen.key[:, 0, 0, 0].tolist() == [2, 2, 0]
    assert chosen.value[:, 0, 0, 0].tolist() == [-2, -2, 0]
    chosen.append(key[:, :, :1], key[:, :, :1])
    assert (chosen.length, cache.length) == (5, 4)


def test_rows_that_share_a_memory_read_it_as_if_each_had_its_own() -> None:
    attention = CrossAttention(8, 2).eval()
    memory, x = torch.randn(2, 5, 8), torch.randn(6, 1, 8)
    shared = attention(x, attention.remember(memory))
    alone = attention(x, memory.repeat_interleave(3, dim=0))
    torch.testing.assert_close(shared, alone)
    with pytest.raises(ValueError, match="5 rows cannot share 2 memories equally"):
        attention(x[:5], attention.remember(memory))


def test_an_empty_cache_says_so() -> None:
    with pytest.raises(ValueError, match="empty"):
        _ = KVCache().key
