"""Blocks with RMS norm, rotary positions, SwiGLU, grouped queries and no biases are Llama's."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

from regard.nn import RotaryPositions
from regard.verify.against_transformers import VOCAB, compare, llama


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("length", [1, 5, 12])
def test_outputs_and_gradients_are_those_of_llama(fast: bool, length: int) -> None:
    tokens = torch.randint(0, VOCAB, (2, length), generator=torch.Generator().manual_seed(length))
    assert compare(llama, fast=fast, tokens=tokens) <= 1e-5


def test_the_other_pairing_of_rotary_positions_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.verify import against_transformers

    def interleaved(d_head: int, *, base: float) -> RotaryPositions:
        return RotaryPositions(d_head, base=base, pairing="interleaved")

    monkeypatch.setattr(against_transformers, "RotaryPositions", interleaved)
    assert compare(llama, fast=True) > 1e-5


@given(heads=st.integers(1, 3), length=st.integers(1, 9), half=st.integers(1, 8))
def test_interleaved_rotary_positions_are_those_of_gpt_j(
    heads: int, length: int, half: int
) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, heads, length, 2 * half)
    sine, cosine = create_sinusoidal_positions(length, 2 * half).chunk(2, dim=-1)
    expected = apply_rotary_pos_emb(x.transpose(1, 2), sine[None], cosine[None]).transpose(1, 2)
    ours = RotaryPositions(2 * half, pairing="interleaved")(x)
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-5)
