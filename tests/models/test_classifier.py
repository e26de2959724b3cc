"""The recurrent classifier; its equalities stand in tests/equalities."""

import pytest
import torch

from regard.models import RecurrentClassifier
from regard.nn import Trace
from regard.nn.pooling import KINDS

TOKENS = torch.tensor([[4, 5, 6, 7], [7, 4, 0, 0]])
LENGTHS = torch.tensor([4, 2])


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("pooling", KINDS)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_every_cell_and_pooling_trains_every_weight(kind, pooling, bidirectional) -> None:
    model = RecurrentClassifier(
        9, 3, kind=kind, pooling=pooling, bidirectional=bidirectional, d_model=8, n_layers=2
    )
    logits = model(TOKENS, LENGTHS)
    assert logits.shape == (2, 3)
    logits.square().sum().backward()
    assert all(0 < p.grad.abs().sum() < torch.inf for p in model.parameters())


def test_the_final_state_is_each_directions_own_last_step() -> None:
    model = RecurrentClassifier(9, 3, kind="gru", bidirectional=True, d_model=8).eval()
    trace = Trace()
    logits = model(TOKENS, LENGTHS, trace=trace)
    ahead = trace["encoder.layers.0.forward"]["hidden"]
    back = trace["encoder.layers.0.backward"]["hidden"]
    last = torch.stack([torch.cat([ahead[0, 3], back[0, 0]]), torch.cat([ahead[1, 1], back[1, 0]])])
    torch.testing.assert_close(logits, model.output(last))


def test_torchs_own_start_can_be_asked_for() -> None:
    made = RecurrentClassifier(9, 3, kind="rnn", d_model=16, recurrent_init="uniform")
    weight = made.encoder.layers.weight_hh_l0
    assert weight.abs().max() <= 16**-0.5
    orthogonal = RecurrentClassifier(9, 3, kind="rnn", d_model=16).encoder.layers.weight_hh_l0
    torch.testing.assert_close(orthogonal @ orthogonal.T, torch.eye(16), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", KINDS)
def test_what_stands_past_a_length_changes_nothing_and_id_0_may_be_a_real_token(pooling) -> None:
    model = RecurrentClassifier(9, 3, pooling=pooling, d_model=8, padding=None).eval()
    other = torch.tensor([[4, 5, 6, 7], [7, 4, 8, 3]])
    torch.testing.assert_close(model(TOKENS, LENGTHS), model(other, LENGTHS))
    zero = torch.tensor([[0, 4, 0]])
    assert not torch.allclose(model(zero), model(torch.tensor([[0, 4]])))
    torch.testing.assert_close(model(zero), model(zero, torch.tensor([3])))
