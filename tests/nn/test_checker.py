"""The shape checker is on: a shape that is not what the signature says fails."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jaxtyping
import pytest
import torch

import regard
from regard.nn import LayerNorm, SelfAttention
from regard.tasks.split_data import Encoded
from tests.shapes import names_a_shape


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


Rows = jaxtyping.Float[torch.Tensor, "B D"]


@pytest.mark.parametrize(
    "annotation", [Rows, Rows | None, tuple[int, Rows], Callable[[Rows], Rows], list[Rows], "Rows"]
)
def test_whatever_names_a_shape_is_checked(annotation: object) -> None:
    def function(x: annotation) -> None: ...

    def returns() -> annotation: ...

    fields = dataclass(type("Fields", (), {"__annotations__": {"x": annotation}}))
    for named in (function, returns, fields, type("Child", (fields,), {})):
        assert names_a_shape(named)


def test_what_names_none_is_left_as_it_is() -> None:
    def function(x: int, y: torch.Tensor) -> list[str]: ...

    assert not names_a_shape(function)
    assert Encoded.sides.fget.__code__.co_name == "sides"
    assert SelfAttention.forward.__code__.co_name != "forward"
