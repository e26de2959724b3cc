"""The shape checker is on: a shape that is not what the signature says fails."""

from pathlib import Path

import jaxtyping
import pytest
import torch

import regard
from regard.nn import LayerNorm, SelfAttention


def test_a_wrong_shape_fails() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        SelfAttention(8, 2)(torch.randn(3, 8))
    with pytest.raises(jaxtyping.TypeCheckError):
        LayerNorm(8)(torch.randint(0, 9, (2, 8)))


def test_every_file_with_shapes_is_checked(request: pytest.FixtureRequest) -> None:
    *checked, _ = request.config.getoption("jaxtyping_packages").split(",")
    package = Path(regard.__file__).parent
    for file in package.rglob("*.py"):
        if "from jaxtyping" in file.read_text():
            module = ".".join(("regard", *file.relative_to(package).with_suffix("").parts))
            assert any(f"{module}.".startswith(f"{name}.") for name in checked), module
