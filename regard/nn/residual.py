"""The residual connection around a sub-layer, with its norm before or after."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.layer_norm import LayerNorm
from regard.nn.trace import Trace, at

NormPlace = Literal["pre", "post"]


class Residual(nn.Module):
    """pre: x + Dropout(f(Norm(x)))    post: Norm(x + Dropout(f(x)))

    The paper norms after the sum (Vaswani et al. 2017, §3.1). Norming before leaves a clear path
    from the loss to every layer, so that deep stacks train without warm-up (Xiong et al. 2020).
    """

    def __init__(
        self, d_model: int, *, dropout: float = 0.1, norm: NormPlace = "pre", fast: bool = True
    ) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise ValueError(f"norm={norm!r} is not one of pre, post")
        self.place = norm
        self.norm = LayerNorm(d_model, fast=fast)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        sublayer: Callable[[Float[Tensor, "B L D"]], Float[Tensor, "B L D"]],
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B L D"]:
        norm_trace = at(trace, "norm")
        if self.place == "pre":
            output = x + self.dropout(sublayer(self.norm(x, trace=norm_trace)))
        else:
            output = self.norm(x + self.dropout(sublayer(x)), trace=norm_trace)
        if trace is not None:
            trace.record(output=output)
        return output
