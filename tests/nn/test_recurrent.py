"""Recurrent layers: fast equals reference, whatever the lengths; padding is never seen."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn import Recurrent, Trace

ALL = list(itertools.product(["rnn", "gru", "lstm"], [False, True], [1, 2, 3]))


def both(kind, bidirectional, n_layers, **options) -> tuple[Recurrent, Recurrent]:
    shared = {"n_layers": n_layers, "bidirectional": bidirectional} | options
    fast, reference = (Recurrent(kind, 5, 4, fast=fast, **shared) for fast in (True, False))
    reference.load_state_dict(fast.state_dict())
    return fast.eval(), reference.eval()


@pytest.mark.parametrize(("kind", "bidirectional", "n_layers"), ALL)
@pytest.mark.parametrize("lengths", [[6, 6, 6, 6], [2, 6, 1, 4], [3, 0, 6, 1], None])
def test_fast_equals_reference_forward_and_gradient(kind, bidirectional, n_layers, lengths) -> None:
    torch.manual_seed(1)
    layers = both(kind, bidirectional, n_layers)
    x = torch.randn(4, 6, 5)
    result = []
    for layer in layers:
        leaf = x.clone().requires_grad_()
        outputs, final = layer(leaf, None if lengths is None else torch.tensor(lengths))
        assert outputs.shape == (4, 6, layer.d_output)
        assert all(part.shape == (4, n_layers * layer.directions, 4) for part in final)
        (outputs.square().sum() + sum(part.sum() for part in final)).backward()
        weights = [p.grad for p in layer.parameters()]
        result.append([outputs, *final, leaf.grad, *weights])
    for fast, reference in zip(*result, strict=True):
        torch.testing.assert_close(fast, reference, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("lengths", [[6, 6, 6, 6], [2, 6, 1, 4]])
def test_a_plain_network_may_cut_off_at_zero(lengths) -> None:
    layers, x = both("rnn", True, 2, nonlinearity="relu"), torch.randn(4, 6, 5)
    result = []
    for layer in layers:
        outputs, final = layer(x, torch.tensor(lengths))
        assert outputs.min() >= 0
        outputs.square().sum().backward()
        result.append([outputs, *final, *(weight.grad for weight in layer.parameters())])
    for fast, reference in zip(*result, strict=True):
        torch.testing.assert_close(fast, reference, atol=1e-5, rtol=1e-4)


def test_what_grows_without_end_does_not_do_so_in_padding() -> None:
    layer = Recurrent("rnn", 5, 4, nonlinearity="relu")
    with torch.no_grad():
        layer.layers.weight_hh_l0.copy_(2 * torch.eye(4))
    outputs, _ = layer(torch.ones(2, 200, 5), torch.tensor([20, 1]))
    outputs.sum().backward()
    assert outputs.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in layer.parameters())


@pytest.mark.parametrize(("kind", "bidirectional", "n_layers"), ALL)
@pytest.mark.parametrize("lengths", [[2, 6, 1, 4], [3, 0, 6, 1], None])
def test_packed_sequences_equal_padded_ones(kind, bidirectional, n_layers, lengths) -> None:
    """A GPU packs, a CPU pads; here both run on the CPU, from states that are not zero."""
    layer = Recurrent(kind, 5, 4, n_layers=n_layers, bidirectional=bidirectional).eval()
    rows = torch.randn(4, n_layers * layer.directions, 4)
    initial = (rows, 3 * rows) if kind == "lstm" else (rows,)
    both = []
    for way in (layer._packed, layer._padded):
        leaf = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
        layer.zero_grad()
        outputs, final = way(leaf, None if lengths is None else torch.tensor(lengths), initial)
        (outputs.square().sum() + sum(part.square().sum() for part in final)).backward()
        weights = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
        both.append([outputs, *final, leaf.grad, *weights])
    for packed, padded in zip(*both, strict=True):
        torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_what_stands_in_padding_changes_not_one_bit(kind) -> None:
    layer, lengths = Recurrent(kind, 5, 4, n_layers=2, bidirectional=True).eval(), [2, 6, 0, 4]
    x = torch.randn(4, 6, 5)
    other = x.clone()
    for row, length in enumerate(lengths):
        other[row, length:] = 1e6 * torch.randn(6 - length, 5)
    (first, one), (second, two) = (layer(each, torch.tensor(lengths)) for each in (x, other))
    assert first.equal(second)
    assert all(a.equal(b) for a, b in zip(one, two, strict=True))


@given(
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=5),
    kind=st.sampled_from(["gru", "lstm"]),
)
def test_a_batch_equals_its_rows_and_padding_is_never_seen(lengths, kind) -> None:
    torch.manual_seed(2)
    for layer in both(kind, True, 2):
        x = torch.randn(len(lengths), 8, 5)
        outputs, final = layer(x, torch.tensor(lengths))
        for row, length in enumerate(lengths):
            assert outputs[row, length:].abs().sum() == 0
            if length == 0:
                assert all(part[row].abs().sum() == 0 for part in final)
                continue
            alone, end = layer(x[row : row + 1, :length])
            torch.testing.assert_close(outputs[row, :length], alone[0], atol=1e-5, rtol=1e-4)
            for part, single in zip(final, end, strict=True):
                torch.testing.assert_close(part[row], single[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_the_state_carries_a_sequence_across_pieces(kind) -> None:
    for layer in both(kind, False, 2):
        x = torch.randn(3, 7, 5)
        whole, end = layer(x)
        first, state = layer(x[:, :3])
        second, state = layer(x[:, 3:], initial=state)
        torch.testing.assert_close(torch.cat([first, second], dim=1), whole, atol=1e-5, rtol=1e-4)
        for one, other in zip(state, end, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_trace_shows_every_gate_at_every_step() -> None:
    layer, trace = Recurrent("lstm", 5, 4, n_layers=2, bidirectional=True).eval(), Trace()
    x, lengths = torch.randn(2, 6, 5), torch.tensor([6, 3])
    outputs, _ = layer(x, lengths, trace=trace)
    torch.testing.assert_close(outputs, layer(x, lengths)[0], atol=1e-5, rtol=1e-4)
    assert list(trace) == [
        f"layers.{number}.{side}" for number in (0, 1) for side in ("forward", "backward")
    ]
    assert trace["layers.1.backward"]["forget"].shape == (2, 6, 4)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("lengths", [None, [3, 2]])
def test_dropout_acts_between_layers_in_training_alone(kind: str, fast: bool, lengths) -> None:
    x, ends = torch.randn(2, 3, 5), None if lengths is None else torch.tensor(lengths)
    for n_layers in (1, 2):
        layer = Recurrent(kind, 5, 4, n_layers=n_layers, dropout=0.5, fast=fast).eval()
        expected = layer(x, ends)[0]
        assert layer(x, ends)[0].equal(expected)
        layer.train()
        drawn = layer(x, ends)[0]
        assert drawn.equal(expected) == (n_layers == 1)  # neither what goes in nor what comes out


def test_recurrent_weights_start_orthogonal_and_the_forget_gate_open() -> None:
    layer = Recurrent("lstm", 5, 4)
    for block in layer.layers.weight_hh_l0.chunk(4):
        torch.testing.assert_close(block @ block.T, torch.eye(4), atol=1e-5, rtol=0)
    assert layer.layers.bias_ih_l0.tolist() == [0] * 4 + [1] * 4 + [0] * 8
