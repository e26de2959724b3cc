"""StackedLinear: several linear maps of one input, their matrices stacked in one."""

from collections.abc import Sequence
from itertools import accumulate

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class StackedLinear(nn.Linear):
    """x W₁ᵀ ‖ … ‖ x W_Nᵀ: N maps of one input in one matrix (ΣR × D), all or some at a time.

    heights: the rows R of each map. One product with a tall matrix is faster than N products.
    """

    def __init__(self, d_in: int, heights: Sequence[int], *, bias: bool = True) -> None:
        super().__init__(d_in, sum(heights), bias=bias)
        self.heights = tuple(heights)

    def forward(
        self, x: Float[Tensor, "*B D"], *, first: int = 0, end: int | None = None
    ) -> Float[Tensor, "*B P"]:
        """The outputs of maps first … end − 1, side by side; of all of them without arguments."""
        rows = self.rows(first, end)
        bias: Tensor | None = self.bias
        return F.linear(x, self.weight[rows], None if bias is None else bias[rows])

    def rows(self, first: int = 0, end: int | None = None) -> slice:
        """The rows of the stacked matrix that hold maps first … end − 1."""
        ends = [0, *accumulate(self.heights)]
        return slice(ends[first], ends[-1 if end is None else end])
