"""Masks: boolean, True = may attend."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn import MultiHeadAttention, attend, attend_fast, causal_mask, padding_mask
from regard.nn.masks import check_mask


def test_padding_mask_allows_tokens_and_hides_padding() -> None:
    mask = padding_mask(torch.tensor([2, 1]), 3)
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]


def test_causal_mask_allows_the_past_and_itself() -> None:
    assert causal_mask(3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


@given(length=st.integers(1, 9), past=st.integers(0, 9))
def test_causal_mask_after_a_past_is_the_end_of_the_whole_mask(length: int, past: int) -> None:
    assert causal_mask(length, past).equal(causal_mask(past + length)[past:])


def test_masks_combine_with_and() -> None:
    both = padding_mask(torch.tensor([2]), 3) & causal_mask(3)
    assert both.shape == (1, 1, 3, 3)
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_that_is_not_boolean_is_a_type_error(dtype: torch.dtype) -> None:
    mask = torch.ones(1, 1, 1, 3, dtype=dtype)
    with pytest.raises(TypeError, match="boolean"):
        check_mask(mask)
    x = torch.randn(1, 2, 3, 4)
    for function in (attend, attend_fast):
        with pytest.raises(TypeError):
            function(x, x, x, mask)
    with pytest.raises(TypeError):
        MultiHeadAttention(8, 2)(*[torch.randn(1, 3, 8)] * 3, mask=mask)
