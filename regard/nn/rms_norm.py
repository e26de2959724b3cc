"""Root-mean-square normalisation, written out."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.trace import Trace


class RMSNorm(nn.Module):
    """γ x / √(mean(x²) + ε), the mean over the D numbers of a position (Zhang & Sennrich 2019).

    Layer norm without taking off the mean and without a bias: it keeps the size alone at bay.
    """

    def __init__(self, d_model: int, *, epsilon: float = 1e-5, fast: bool = True) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.fast = fast
        self.weight = nn.Parameter(torch.ones(d_model))  # γ

    def forward(
        self, x: Float[Tensor, "*B D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*B D"]:
        if self.fast and trace is None:
            return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)
        mean_square = x.square().mean(-1, keepdim=True)  # *B 1
        output = self.weight * x / torch.sqrt(mean_square + self.epsilon)
        if trace is not None:
            trace.record(mean_square=mean_square, output=output)
        return output
