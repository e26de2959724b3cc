"""Layer normalisation, written out."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.trace import Trace


class LayerNorm(nn.Module):
    """γ (x − μ) / √(σ² + ε) + β, with μ and σ² over the D numbers of a position (Ba et al. 2016).

    The variance is the biased one (divided by D), and ε stands inside the root. bias=False: no β.
    """

    def __init__(
        self, d_model: int, *, epsilon: float = 1e-5, bias: bool = True, fast: bool = True
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.fast = fast
        self.weight = nn.Parameter(torch.ones(d_model))  # γ
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None  # β

    def forward(
        self, x: Float[Tensor, "*B D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "*B D"]:
        if self.fast and trace is None:
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)
        mean = x.mean(-1, keepdim=True)  # *B 1
        variance = (x - mean).square().mean(-1, keepdim=True)  # *B 1
        output = self.weight * (x - mean) / torch.sqrt(variance + self.epsilon)
        if self.bias is not None:
            output = output + self.bias
        if trace is not None:
            trace.record(mean=mean, variance=variance, output=output)
        return output
