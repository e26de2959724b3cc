"""Embeddings, positions, norms, residuals, feed-forward."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from regard.nn import (
    Embedding,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    OutputProjection,
    Residual,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    TokenEmbedding,
    Trace,
    sinusoids,
)


def test_sinusoids_by_hand() -> None:
    table = sinusoids(50, 6)
    for position in (0, 1, 49):
        for i in range(3):
            angle = position / 10_000 ** (2 * i / 6)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_an_odd_width_has_one_sine_more() -> None:
    assert sinusoids(4, 5).shape == (4, 5)
    torch.testing.assert_close(sinusoids(4, 5)[:, 4], (torch.arange(4) / 10_000**0.8).sin())


def test_sinusoidal_positions_have_no_end() -> None:
    positions = SinusoidalPositions(8)
    torch.testing.assert_close(positions(torch.arange(40)[None])[0], sinusoids(64, 8)[:40])
    later = torch.tensor([[60, 61, 62], [3, 4, 5]])
    torch.testing.assert_close(positions(later), sinusoids(63, 8)[later])


def test_learned_positions_end_where_they_end() -> None:
    positions = LearnedPositions(8, length=4)
    assert positions(torch.tensor([[2, 3]]))[0].equal(positions.weight[2:])
    assert positions(torch.tensor([[3], [0]]))[:, 0].equal(positions.weight[[3, 0]])
    with pytest.raises(ValueError, match=r"position 5 .* learned 4"):
        positions(torch.tensor([[2, 3, 4]]))


@given(heads=st.integers(1, 3), length=st.integers(1, 9), half=st.integers(1, 8))
def test_rotary_positions_are_those_of_transformers(heads: int, length: int, half: int) -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 2, heads, length, 2 * half)
    config = LlamaConfig(hidden_size=2 * half * heads, num_attention_heads=heads, head_dim=2 * half)
    cosine, sine = LlamaRotaryEmbedding(config)(query, torch.arange(length)[None])
    rotary = RotaryPositions(2 * half)
    theirs = apply_rotary_pos_emb(query, key, cosine, sine)
    for ours, expected in zip((rotary(query), rotary(key)), theirs, strict=True):
        torch.testing.assert_close(ours, expected)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, 1, 8)
    rotary = RotaryPositions(8)

    def score(query_at: int, key_at: int) -> torch.Tensor:
        at = (torch.tensor([[place]]) for place in (query_at, key_at))
        return (rotary(query, next(at)) * rotary(key, next(at))).sum()

    torch.testing.assert_close(score(3, 5), score(40, 42))
    assert not torch.isclose(score(3, 5), score(3, 6))
    with pytest.raises(ValueError, match="d_head=3 is odd"):
        RotaryPositions(3)


def test_token_embedding_is_scaled_and_zero_for_padding() -> None:
    embedding = TokenEmbedding(7, 16, padding=0)
    output = embedding(torch.tensor([[3, 0]]))
    torch.testing.assert_close(output[0, 0], embedding.weight[3] * 4)
    assert output[0, 1].abs().max() == 0


@pytest.mark.parametrize("tied", [True, False])
def test_the_padding_row_stays_zero_through_training(tied: bool) -> None:
    embedding = TokenEmbedding(7, 8, padding=0)
    output = OutputProjection(7, 8, tied=embedding if tied else None)
    optimiser = torch.optim.AdamW({*embedding.parameters(), *output.parameters()}, lr=0.1)
    for _ in range(3):
        logits = output(embedding(torch.tensor([[3, 5, 0]])))
        torch.nn.functional.cross_entropy(logits[0], torch.tensor([4, 4, 5])).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert embedding.weight[0].abs().max() == 0
    assert embedding.weight[3].abs().max() > 0


def test_embedding_is_token_plus_position_plus_dropout() -> None:
    embedding = Embedding(TokenEmbedding(7, 8, padding=0), SinusoidalPositions(8), dropout=0.5)
    tokens = torch.tensor([[3, 5, 6]])
    embedding.eval()
    torch.testing.assert_close(embedding(tokens), embedding.tokens(tokens) + sinusoids(3, 8))
    torch.testing.assert_close(
        embedding(tokens[:, 2:], torch.tensor([[2]])), embedding(tokens)[:, 2:]
    )
    embedding.train()
    assert (embedding(tokens) == 0).any()


def test_a_tied_output_is_the_embedding() -> None:
    embedding = TokenEmbedding(7, 8, padding=0)
    output = OutputProjection(7, 8, tied=embedding)
    assert output.weight is embedding.weight
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(output(x), x @ embedding.weight.T)


def test_layer_norm_has_mean_zero_and_variance_one() -> None:
    for fast in (True, False):
        output = LayerNorm(64, fast=fast)(torch.randn(3, 5, 64) * 9 + 4)
        torch.testing.assert_close(output.mean(-1), torch.zeros(3, 5), atol=1e-5, rtol=0)
        torch.testing.assert_close(
            output.var(-1, correction=0), torch.ones(3, 5), atol=1e-4, rtol=0
        )


def test_residual_norms_before_or_after() -> None:
    x = torch.randn(2, 3, 8)
    for norm, expected in (
        ("pre", lambda residual: x + 2 * residual.norm(x)),
        ("post", lambda residual: residual.norm(x + 2 * x)),
    ):
        residual = Residual(LayerNorm(8), place=norm, dropout=0.0)
        output = residual(x, lambda y, trace: 2 * y)
        torch.testing.assert_close(output, expected(residual))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh", "silu", "squared-relu"])
def test_feed_forward_fast_equals_reference(activation, gated: bool) -> None:
    fast = FeedForward(8, 16, activation=activation, gated=gated)
    reference = FeedForward(8, 16, activation=activation, gated=gated, fast=False)
    reference.load_state_dict(fast.state_dict())
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(fast(x), reference(x), atol=1e-6, rtol=1e-5)


def test_a_trace_knows_what_it_does_not_hold() -> None:
    trace = Trace()
    LayerNorm(4)(torch.randn(1, 4), trace=trace.at("norm"))
    assert list(trace) == ["norm"]
    assert len(trace) == 1
    with pytest.raises(KeyError, match="the paths are: norm"):
        trace["other"]


def test_rms_norm_has_a_mean_square_of_one() -> None:
    x = torch.randn(3, 5, 64) * 9 + 4
    outputs = [RMSNorm(64, fast=fast)(x) for fast in (True, False)]
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(outputs[0].square().mean(-1), torch.ones(3, 5))


def test_a_norm_has_a_bias_only_if_told_to() -> None:
    x = torch.randn(3, 8)
    for fast in (True, False):
        without = LayerNorm(8, bias=False, fast=fast)
        assert [name for name, _ in without.named_parameters()] == ["weight"]
        torch.testing.assert_close(without(x), LayerNorm(8)(x))


def test_feed_forward_drops_out_within() -> None:
    part = FeedForward(8, 64, dropout=0.5, bias=False)
    with torch.no_grad():
        part.inner.weight.fill_(1.0)
        part.outer.weight.fill_(1.0)
    x = torch.ones(1, 40, 8)
    assert part(x).std() > 0
    assert part.eval()(x).std() == 0


def test_a_residual_records_its_norm_and_its_sum_under_the_sub_layer() -> None:
    trace = Trace()
    residual = Residual(LayerNorm(8), dropout=0.0)
    x = torch.randn(2, 3, 8)
    output = residual(x, FeedForward(8, 16), trace=trace.at("layers.0.feed_forward"))
    assert list(trace) == ["layers.0.feed_forward.norm", "layers.0.feed_forward"]
    assert trace["layers.0.feed_forward"]["residual"].equal(output)
