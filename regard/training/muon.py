"""Muon: a matrix moves equally far in every direction, however small its gradient is there."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.system.shards import is_shard, part_of, whole

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""a, b, c of p(s) = a s + b s³ + c s⁵: five iterations map 0.002 … 1 to 0.68 … 1.21."""
ITERATIONS = 5
ADAM_RMS = 0.2
"""The usual root mean square of Adam's steps, divided by the learning rate."""


def orthogonalised(matrices: Float[Tensor, "N R C"]) -> Float[Tensor, "N R C"]:
    """About U Vᵀ for each matrix U S Vᵀ: all of its singular values become about 1.

    The Newton-Schulz iteration X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X applies p to every singular value
    and does not change U and V. It needs matrix products only, and no decomposition.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if tall else matrices  # X Xᵀ is the smaller of the two products
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value above 1
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.AdamW):
    """m ← μ m + (1 − μ) g;  W ← (1 − ηλ) W − η s orthogonalised(μ m + (1 − μ) g).

    Here s = 0.2 √max(R, C), for matrices R × C of linear maps; AdamW updates all other parameters.
    The gradient of a matrix has a few strong directions, which Adam follows; Muon learns the weak
    ones as fast (Jordan et al. 2024). The factor s makes a step about as large as Adam's, so that
    both share one learning rate (Liu et al. 2025, §2.2).

    heights: the parameters that Muon updates, and the rows of each matrix that is stacked in one
    (query, key and value, for example): each of those matrices is orthogonalised separately.
    """

    MOMENTUM = "momentum_buffer"

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        heights: dict[Tensor, tuple[int, ...]],
        momentum: float = 0.95,
        **adam: Any,
    ) -> None:
        super().__init__(groups, **adam)
        self.heights = heights
        self.momentum = momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        gradients: list[tuple[Tensor, Tensor | None]] = []
        for group in self.param_groups:
            by_shape: dict[tuple[torch.Size, tuple[int, ...]], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter in self.heights and parameter.grad is not None:
                    by_shape[parameter.shape, self.heights[parameter]].append(parameter)
            for (_, heights), parameters in by_shape.items():
                self._update(parameters, heights, lr=group["lr"], decay=group["weight_decay"])
                for parameter in parameters:
                    gradients.append((parameter, parameter.grad))
                    parameter.grad = None
        super().step()  # AdamW skips parameters without a gradient
        for parameter, gradient in gradients:
            parameter.grad = gradient
        return loss

    def _update(
        self, parameters: list[Tensor], heights: tuple[int, ...], *, lr: float, decay: float
    ) -> None:
        """One step of parameters of one shape; matrices of equal height are computed together."""
        # Of sharded parameters too, whole matrices: a part of one has other singular values.
        momenta = torch.stack([whole(self._momentum(weight)) for weight in parameters])  # P R C
        matrices = momenta.split(heights, dim=1)
        for parameter in parameters:
            parameter.mul_(1 - lr * decay)
        for height in dict.fromkeys(heights):
            numbers = [number for number, other in enumerate(heights) if other == height]
            steps = orthogonalised(torch.cat([matrices[number] for number in numbers]))
            size = lr * ADAM_RMS * max(steps.shape[1:]) ** 0.5
            for number, per_parameter in zip(numbers, steps.chunk(len(numbers)), strict=True):
                for parameter, step in zip(parameters, per_parameter, strict=True):
                    if is_shard(parameter):
                        above, below = sum(heights[:number]), sum(heights[number + 1 :])
                        full = F.pad(step, (0, 0, above, below))
                        parameter.sub_(part_of(full, parameter), alpha=size)
                    else:
                        parameter.split(heights)[number].sub_(step, alpha=size)

    def _momentum(self, parameter: Tensor) -> Tensor:
        """μ m + (1 − μ) g after the update of m: Nesterov's momentum."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if self.MOMENTUM not in state:
            state[self.MOMENTUM] = torch.zeros_like(parameter)
        state[self.MOMENTUM].lerp_(parameter.grad, 1 - self.momentum)
        return parameter.grad.lerp(state[self.MOMENTUM], self.momentum)
