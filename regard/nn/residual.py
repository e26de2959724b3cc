"""The residual connection around a sub-layer, with its norm before or after."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.norms import Norm
from regard.nn.trace import Trace, at

NormPlace = Literal["pre", "post"]


class Residual(nn.Module):
    """pre: x + Dropout(f(Norm(x)))    post: Norm(x + Dropout(f(x)))

    The paper norms after the sum (Vaswani et al. 2017, §3.1). Norming before leaves a clear path
    from the loss to every layer, so that deep stacks train without warm-up (Xiong et al. 2020).
    """

    def __init__(self, norm: Norm, *, place: NormPlace = "pre", dropout: float = 0.1) -> None:
        super().__init__()
        if place not in ("pre", "post"):
            raise ValueError(f"place={place!r} is not one of pre, post")
        self.place = place
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        sublayer: Callable[..., Float[Tensor, "B L D"]],
        *inputs: Any,
        trace: Trace | None = None,
        **options: Any,
    ) -> Float[Tensor, "B L D"]:
        """The sub-layer gets x (normed or not), then the inputs, the options and the trace.

        The trace is the sub-layer's own; the norm is recorded below it, the sum as its `residual`.
        """
        norm_trace = at(trace, "norm")
        if self.place == "pre":
            normed = self.norm(x, trace=norm_trace)
            output = x + self._added(sublayer, normed, *inputs, trace=trace, **options)
        else:
            summed = x + self._added(sublayer, x, *inputs, trace=trace, **options)
            output = self.norm(summed, trace=norm_trace)
        if trace is not None:
            trace.record(residual=output)
        return output

    def _added(
        self, sublayer: Callable[..., Tensor], x: Tensor, *inputs: Any, **options: Any
    ) -> Tensor:
        """What the sub-layer adds to the sum: nothing, if it is turned off."""
        trace = options["trace"]
        if trace is not None and trace.off:
            return torch.zeros_like(x)
        return self.dropout(sublayer(x, *inputs, **options))
