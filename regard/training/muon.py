"""Muon: matrices are moved as far in every direction, whatever the size of their gradient there."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""a, b, c of p(s) = a s + b s³ + c s⁵: five turns bring 0.002 ≤ s ≤ 1 between 0.68 and 1.21."""
TURNS = 5
LIKE_ADAM = 0.2
"""The root of the mean square of Adam's steps, by its learning rate, as it is usually met."""


def orthogonalised(matrices: Float[Tensor, "N R C"]) -> Float[Tensor, "N R C"]:
    """Nearly U Vᵀ for each matrix U S Vᵀ: its singular values become about 1, all of them.

    Newton and Schulz's iteration X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X, in which every singular value
    goes through p by itself, and U and V stay what they were. Products alone, and no decomposition.
    """
    a, b, c = COEFFICIENTS
    high = matrices.size(1) > matrices.size(2)
    x = matrices.mT if high else matrices  # the smaller X Xᵀ of the two
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value above 1
    for _ in range(TURNS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if high else x


class Muon(torch.optim.AdamW):
    """m ← μ m + (1 − μ) g;  W ← (1 − ηλ) W − η s orthogonalised(μ m + (1 − μ) g).

    With s = 0.2 √max(R, C), for matrices R × C of linear maps; the rest is AdamW's.
    A gradient of a matrix is mostly a few strong directions, and Adam follows them; here the rare
    ones are learned as fast (Jordan et al. 2024). The factor makes a step as large as Adam's would
    be, so that both share one learning rate (Liu et al. 2025, §2.2).

    heights: the parameters that are moved so, and the rows of each matrix in one (three matrices
    where query, key and value are projected at once): each is orthogonalised by itself.
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
        passed_over: list[tuple[Tensor, Tensor | None]] = []
        for group in self.param_groups:
            alike: dict[tuple[torch.Size, tuple[int, ...]], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter in self.heights and parameter.grad is not None:
                    alike[parameter.shape, self.heights[parameter]].append(parameter)
            for (_, heights), parameters in alike.items():
                self._move(parameters, heights, lr=group["lr"], decay=group["weight_decay"])
                for parameter in parameters:
                    passed_over.append((parameter, parameter.grad))
                    parameter.grad = None
        super().step()  # AdamW passes over what has no gradient
        for parameter, gradient in passed_over:
            parameter.grad = gradient
        return loss

    def _move(
        self, parameters: list[Tensor], heights: tuple[int, ...], *, lr: float, decay: float
    ) -> None:
        """One step of parameters that are alike; matrices of one height go together."""
        ahead = torch.stack([self._ahead(parameter) for parameter in parameters])  # P R C
        pieces = ahead.split(heights, dim=1)
        for parameter in parameters:
            parameter.mul_(1 - lr * decay)
        for height in dict.fromkeys(heights):
            places = [place for place, other in enumerate(heights) if other == height]
            steps = orthogonalised(torch.cat([pieces[place] for place in places]))
            size = lr * LIKE_ADAM * max(steps.shape[1:]) ** 0.5
            for place, moves in zip(places, steps.chunk(len(places)), strict=True):
                for parameter, move in zip(parameters, moves, strict=True):
                    parameter.split(heights)[place].sub_(move, alpha=size)

    def _ahead(self, parameter: Tensor) -> Tensor:
        """The gradient, averaged over the last steps and once more with itself (Nesterov's way)."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if self.MOMENTUM not in state:
            state[self.MOMENTUM] = torch.zeros_like(parameter)
        state[self.MOMENTUM].lerp_(parameter.grad, 1 - self.momentum)
        return parameter.grad.lerp(state[self.MOMENTUM], self.momentum)
