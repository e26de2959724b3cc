"""Blocks with layer norm, learned positions, GELU (tanh) and biases are GPT-2's."""

import pytest
import torch

from regard.verify.against_transformers import VOCAB, compare, gpt2


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("length", [1, 5, 12])
def test_outputs_and_gradients_are_those_of_gpt2(fast: bool, length: int) -> None:
    tokens = torch.randint(0, VOCAB, (2, length), generator=torch.Generator().manual_seed(length))
    assert compare(gpt2, fast=fast, tokens=tokens) <= 1e-5


def test_another_activation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.nn import activations

    monkeypatch.setitem(activations.FAST, "gelu-tanh", activations.FAST["gelu"])
    assert compare(gpt2, fast=True) > 1e-5
