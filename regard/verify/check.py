"""Check: an equality, and the largest difference between its two sides."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TOLERANCE = 1e-5
"""The largest difference that float32 rounding causes over a few layers."""


@dataclass(frozen=True)
class Check:
    """Two ways to compute the same values."""

    name: str
    difference: Callable[[], float]
    """Computes both, and returns the largest difference."""
    tolerance: float = TOLERANCE


def largest(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The largest absolute difference within pairs of tensors; infinite where one is NaN."""
    worst = 0.0
    for ours, theirs in pairs:
        difference = (ours.detach() - theirs.detach()).abs().max().item()
        worst = max(worst, difference if difference == difference else float("inf"))
    return worst


def largest_with_gradients(
    ours: Callable[[list[Tensor]], Tensor],
    theirs: Callable[[list[Tensor]], Tensor],
    inputs: Sequence[Tensor],
    weights: Sequence[tuple[Tensor, Tensor]] = (),
    *,
    counted: Tensor | None = None,
) -> float:
    """The largest difference of two functions and of the gradients of inputs and weights.

    counted: True at the positions that are compared (padding may hold anything).
    """
    sides: list[list[Tensor]] = []
    noise: Tensor | None = None
    for function, side in ((ours, 0), (theirs, 1)):
        leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
        for pair in weights:
            pair[side].grad = None
        output = function(leaves)
        if counted is not None:
            output = output * counted[..., None]
        if noise is None:
            generator = torch.Generator().manual_seed(7)
            noise = torch.randn(output.shape, generator=generator) / output[..., 0].numel()
        (output * noise).sum().backward()
        gradients = [_gradient(leaf) for leaf in leaves if leaf.requires_grad]
        gradients += [_gradient(pair[side]) for pair in weights]
        sides.append([output, *gradients])
    return largest(zip(*sides, strict=True))


def _gradient(tensor: Tensor) -> Tensor:
    if tensor.grad is None:
        raise ValueError(f"no gradient reached a tensor of shape {tuple(tensor.shape)}")
    return tensor.grad
