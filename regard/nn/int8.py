"""Products in whole numbers: weights and inputs rounded to 8 bits, for faster prediction."""

import functools

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.embedding import OutputProjection
from regard.nn.stacked_linear import StackedLinear
from regard.nn.trace import Trace

LARGEST = 127
"""The largest whole number of 8 bits; −128 is not used, so that every sign can be flipped."""


@functools.cache
def largest_weight() -> int:
    """127; or 64, where the processor adds two products in 16 bits, which could not hold more.

    Processors with instructions for such sums (VNNI) add in 32 bits.
    """
    full = torch.full((16, 64), LARGEST, dtype=torch.int8)
    exact = (torch._int_mm(full, full.T.contiguous()) == 64 * LARGEST**2).all()
    return LARGEST if exact else 64


def round_rows(
    x: Float[Tensor, "*B I"], largest: int = LARGEST
) -> tuple[Int[Tensor, "*B I"], Float[Tensor, "*B 1"]]:
    """x ≈ s q: whole numbers, and a scale for each row that makes its largest number ±largest."""
    scales = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / largest
    return (x / scales).round_().to(torch.int8), scales


def int8_linear_reference(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], *, bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "*B O"]:
    """x Wᵀ + b ≈ sₓ s · Σ qₓ q + b, the sum being over whole numbers.

    The rows of W are rounded once. Those of x are rounded anew each time (hence "dynamic"), each by
    itself: what is computed for one row does not depend on the others.
    """
    inputs, input_scales = round_rows(x)
    weights, scales = round_rows(weight, largest_weight())
    sums = inputs.double() @ weights.double().T  # exact: whole numbers below 2⁵³
    output = sums.float() * input_scales * scales[:, 0]
    return output if bias is None else output + bias


class Int8Linear(nn.Module):
    """The same by a product of whole numbers; the matrix takes a quarter of its memory.

    The constructor takes rows that are rounded already, and their scales.
    """

    def __init__(
        self,
        rounded: Int[Tensor, "O I"],
        scales: Float[Tensor, "O 1"],
        *,
        bias: Float[Tensor, "O"] | None,
    ) -> None:
        super().__init__()
        # torch 2.13 multiplies wrongly where there is one input alone: a second one, 0, mends it.
        self._more = 1 if rounded.size(1) == 1 else 0
        self._weight = F.pad(rounded, (0, self._more)).T.contiguous()  # I O
        self._scales = scales[:, 0]
        self._bias = None if bias is None else bias.detach()

    @classmethod
    def of(cls, weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None) -> "Int8Linear":
        """A linear map, rounded."""
        return cls(*round_rows(weight.detach(), largest_weight()), bias=bias)

    @torch.no_grad()
    def forward(
        self, x: Float[Tensor, "*B I"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*B O"]:
        inputs, scales = round_rows(F.pad(x.float().reshape(-1, x.size(-1)), (0, self._more)))
        output = (torch._int_mm(inputs, self._weight) * scales).mul_(self._scales)
        if self._bias is not None:
            output += self._bias
        output = output.view(*x.shape[:-1], -1)
        if trace is not None:
            trace.record(logits=output)
        return output


class Int8Stacked(nn.Module):
    """A StackedLinear in 8 bits; each range of maps is packed when it is first used."""

    def __init__(self, stacked: StackedLinear) -> None:
        super().__init__()
        self._rounded, self._scales = round_rows(stacked.weight.detach(), largest_weight())
        self._bias: Tensor | None = None if stacked.bias is None else stacked.bias.detach()
        self._rows = stacked.rows
        self._maps: dict[tuple[int, int | None], Int8Linear] = {}

    def forward(
        self, x: Float[Tensor, "*B D"], *, first: int = 0, end: int | None = None
    ) -> Float[Tensor, "*B P"]:
        if (first, end) not in self._maps:
            rows = self._rows(first, end)
            bias = None if self._bias is None else self._bias[rows]
            self._maps[first, end] = Int8Linear(self._rounded[rows], self._scales[rows], bias=bias)
        return self._maps[first, end](x)


def quantize(model: nn.Module) -> None:
    """Every linear map in 8 bits, in place; embeddings, norms and attention stay as they are."""
    for part in list(model.modules()):
        for name, child in part.named_children():
            if isinstance(child, StackedLinear):
                setattr(part, name, Int8Stacked(child))
            elif isinstance(child, nn.Linear):
                setattr(part, name, Int8Linear.of(child.weight, child.bias))
            elif isinstance(child, OutputProjection):
                setattr(part, name, Int8Linear.of(child.weight, None))
