"""BlockLinear: several linear maps of one input, their matrices stacked."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class BlockLinear(nn.Linear):
    """x W₁ᵀ ‖ … ‖ x W_Bᵀ: B maps from D to D in one matrix (B·D × D), all or some at a time.

    One product of a matrix that is B times as high is faster than B products.
    """

    def __init__(self, d_model: int, blocks: int, *, bias: bool = True) -> None:
        super().__init__(d_model, blocks * d_model, bias=bias)
        self.blocks = blocks

    def forward(
        self, x: Float[Tensor, "*B D"], *, first: int = 0, end: int | None = None
    ) -> Float[Tensor, "*B P"]:
        """The maps from the first-th to before the end-th, side by side."""
        rows = block_rows(first, end, width=self.in_features)
        bias: Tensor | None = self.bias
        return F.linear(x, self.weight[rows], None if bias is None else bias[rows])


def block_rows(first: int, end: int | None, *, width: int) -> slice:
    """The rows of the stacked matrix in which some blocks stand."""
    return slice(first * width, None if end is None else end * width)
