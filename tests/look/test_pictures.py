"""Pictures of a run."""

import pytest
import torch

from regard.look.pictures import MOST_SQUARES, shown_parts
from regard.nn import Trace


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (18, 8), (30, 9), (48, 200)])
def test_a_deep_model_is_drawn_from_its_first_part_to_its_last(layers: int, heads: int) -> None:
    trace = Trace()
    for number in range(layers):
        scope = trace.at(f"decoder.layers.{number}.self_attention")
        scope.record(weights=torch.zeros(1, heads, 2, 2))
    paths = list(trace.attention())
    shown = shown_parts(trace)
    assert (shown[0], shown[-1]) == (paths[0], paths[-1])
    assert shown == sorted(set(shown), key=paths.index)
    assert len(shown) * (heads + 1) <= max(MOST_SQUARES, 2 * (heads + 1))
    assert len(shown) == layers or layers * (heads + 1) > MOST_SQUARES
