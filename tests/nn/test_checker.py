"""The shape checker is on: a shape that is not what the signature says fails."""

import jaxtyping
import pytest
import torch

from regard.nn import LayerNorm, SelfAttention


def test_a_wrong_shape_fails() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        SelfAttention(8, 2)(torch.randn(3, 8))
    with pytest.raises(jaxtyping.TypeCheckError):
        LayerNorm(8)(torch.randint(0, 9, (2, 8)))
