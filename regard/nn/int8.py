"""Matrix products in integers: weights and inputs rounded to 8 bits, for faster prediction."""

import functools

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.embedding import OutputProjection
from regard.nn.stacked_linear import StackedLinear
from regard.nn.trace import Trace

LARGEST = 127
"""The largest integer of 8 bits; −128 is not used, so that every integer has its negative."""


@functools.cache
def largest_weight() -> int:
    """127; or 64 on a processor that sums two products in 16 bits, where 127 would overflow.

    Processors with VNNI instructions sum in 32 bits.
    """
    full = torch.full((16, 64), LARGEST, dtype=torch.int8)
    exact = (torch._int_mm(full, full.T) == 64 * LARGEST**2).all()
    return LARGEST if exact else 64


def round_rows(
    x: Float[Tensor, "*B I"], largest: int = LARGEST
) -> tuple[Int[Tensor, "*B I"], Float[Tensor, "*B 1"]]:
    """x ≈ s q: integers q, and a scale s per row that makes its largest integer ±largest."""
    scales = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / largest
    return (x / scales).round_().to(torch.int8), scales


def int8_linear_reference(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], *, bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "*B O"]:
    """x Wᵀ + b ≈ sₓ s · Σ qₓ q + b, where the sum is over integers.

    The rows of W are rounded once. Those of x are rounded at every call ("dynamic" quantisation),
    each with its own scale: the output of one row does not depend on the others.
    """
    inputs, input_scales = round_rows(x)
    weights, scales = round_rows(weight, largest_weight())
    sums = inputs.double() @ weights.double().T  # exact: integers below 2⁵³
    output = sums.float() * input_scales * scales[:, 0]
    return output if bias is None else output + bias


class Int8Linear(nn.Module):
    """`int8_linear_reference` by an integer matrix product; the matrix takes a quarter of the RAM.

    The constructor takes rows that are already rounded, and their scales.
    """

    def __init__(
        self,
        rounded: Int[Tensor, "O I"],
        scales: Float[Tensor, "O 1"],
        *,
        bias: Float[Tensor, "O"] | None,
    ) -> None:
        super().__init__()
        # torch 2.13 returns wrong products for a single input: add a second one, which is 0.
        self._extra = 1 if rounded.size(1) == 1 else 0
        # O I, and transposed as a view: a third of the time of a matrix that is stored as I O.
        self._weight = F.pad(rounded, (0, self._extra)).contiguous()
        self._scales = scales[:, 0]
        self._bias = None if bias is None else bias.detach()

    @classmethod
    def of(cls, weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None) -> "Int8Linear":
        """The linear map x Wᵀ + b, with W rounded."""
        return cls(*round_rows(weight.detach(), largest_weight()), bias=bias)

    @torch.no_grad()
    def forward(
        self, x: Float[Tensor, "*B I"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*B O"]:
        inputs, scales = round_rows(F.pad(x.float().reshape(-1, x.size(-1)), (0, self._extra)))
        output = (torch._int_mm(inputs, self._weight.T) * scales).mul_(self._scales)
        if self._bias is not None:
            output += self._bias
        output = output.view(*x.shape[:-1], -1)
        if trace is not None:
            trace.record(logits=output)
        return output


class Int8Stacked(nn.Module):
    """A StackedLinear in 8 bits; each range of maps is packed at its first use."""

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
    """Replace every linear map by its 8-bit form; embeddings, norms and attention do not change."""
    for part in list(model.modules()):
        for name, child in part.named_children():
            if isinstance(child, StackedLinear):
                setattr(part, name, Int8Stacked(child))
            elif isinstance(child, nn.Linear):
                setattr(part, name, Int8Linear.of(child.weight, child.bias))
            elif isinstance(child, OutputProjection):
                setattr(part, name, Int8Linear.of(child.weight, None))
