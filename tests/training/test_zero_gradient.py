"""A gradient of zeros moves nothing and gives no NaN, with any optimiser."""

from typing import get_args

import pytest
import torch

from regard.config import Train
from regard.models import GPT
from regard.training.optimisers import make_optimiser

NAMES = get_args(Train.model_fields["optimizer"].annotation)


def small() -> GPT:
    return GPT(9, d_model=8, n_layers=2, n_heads=2, d_ff=16, max_length=8, zero_init=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_zero_gradient_in_the_first_step_moves_nothing(name: str) -> None:
    model = small()
    optimiser = make_optimiser(model, name=name, lr=0.1)
    before = [weight.detach().clone() for weight in model.parameters()]
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    for weight, was in zip(model.parameters(), before, strict=True):
        assert weight.equal(was)


@pytest.mark.parametrize("name", NAMES)
def test_zero_initialised_blocks_learn_without_nan(name: str) -> None:
    """Behind a projection of zeros there is no gradient at first: of queries, keys and values."""
    model = small()
    optimiser = make_optimiser(model, name=name, lr=0.01)
    tokens = torch.randint(9, (4, 8))
    first = model.decoder.layers[0].self_attention.projection.weight
    for step in range(3):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )
        loss.backward()
        assert first.grad is not None
        assert (first.grad == 0).all() == (step == 0)
        optimiser.step()
        assert all(weight.isfinite().all() for weight in model.parameters())
