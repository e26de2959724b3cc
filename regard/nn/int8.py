"""Products in whole numbers: weights and inputs rounded to 8 bits, for faster prediction."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.blocks import BlockLinear
from regard.nn.embedding import OutputProjection
from regard.nn.trace import Trace

LARGEST = 127
"""Of a whole number of 8 bits; −128 is left out, so that a sign may be turned."""


def round_rows(x: Float[Tensor, "*B I"]) -> tuple[Int[Tensor, "*B I"], Float[Tensor, "*B 1"]]:
    """x ≈ s q: whole numbers, and a scale for each row that makes its largest number ±127."""
    scales = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / LARGEST
    return (x / scales).round_().to(torch.int8), scales


def int8_linear_reference(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "*B O"]:
    """x Wᵀ + b ≈ sₓ s · Σ qₓ q + b, the sum being over whole numbers.

    The rows of W are rounded once. Those of x are rounded anew each time (hence "dynamic"), each by
    itself: what is computed for one row does not depend on the others.
    """
    inputs, input_scales = round_rows(x)
    weights, scales = round_rows(weight)
    sums = inputs.double() @ weights.double().T  # exact: whole numbers below 2⁵³
    found = sums.float() * input_scales * scales[:, 0]
    return found if bias is None else found + bias


class Int8Linear(nn.Module):
    """The same by a product of whole numbers; the matrix takes a quarter of its memory."""

    def __init__(self, weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None) -> None:
        super().__init__()
        # torch 2.13 multiplies wrongly where there is one input alone: a second one, 0, mends it.
        self._more = 1 if weight.size(1) == 1 else 0
        rounded, scales = round_rows(F.pad(weight.detach(), (0, self._more)))
        self._weight = rounded.T.contiguous()  # I O
        self._scales = scales[:, 0]
        self._bias = None if bias is None else bias.detach()

    def forward(
        self, x: Float[Tensor, "*B I"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*B O"]:
        inputs, scales = round_rows(F.pad(x.float().flatten(0, -2), (0, self._more)))
        found = (torch._int_mm(inputs, self._weight) * scales).mul_(self._scales)
        if self._bias is not None:
            found += self._bias
        found = found.unflatten(0, x.shape[:-1])
        if trace is not None:
            trace.record(scores=found)
        return found


class Int8Blocks(nn.Module):
    """A BlockLinear in 8 bits; each stretch of blocks that is asked for is packed once."""

    def __init__(self, blocks: BlockLinear) -> None:
        super().__init__()
        self._blocks = [blocks]  # in a list, so that it is no part of this module's weights
        self._packed: dict[tuple[int, int | None], Int8Linear] = {}

    def forward(
        self, x: Float[Tensor, "*B D"], first: int = 0, end: int | None = None
    ) -> Float[Tensor, "*B P"]:
        if (first, end) not in self._packed:
            whole = self._blocks[0]
            rows = whole.rows(first, end)
            bias: Tensor | None = whole.bias
            self._packed[first, end] = Int8Linear(
                whole.weight[rows], None if bias is None else bias[rows]
            )
        return self._packed[first, end](x)


def quantize(model: nn.Module) -> None:
    """Every linear map in 8 bits, in place; embeddings and norms stay as they are."""
    for part in list(model.modules()):
        for name, child in part.named_children():
            if isinstance(child, BlockLinear):
                setattr(part, name, Int8Blocks(child))
            elif isinstance(child, nn.Linear):
                setattr(part, name, Int8Linear(child.weight, child.bias))
            elif isinstance(child, OutputProjection):
                setattr(part, name, Int8Linear(child.weight, None))
