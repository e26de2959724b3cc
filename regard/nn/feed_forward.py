"""The position-wise feed-forward network."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.activations import FAST, REFERENCE, Activation
from regard.nn.dropout import Dropout
from regard.nn.trace import Trace


class FeedForward(nn.Module):
    """act(x W₁ + b₁) W₂ + b₂, at each position by itself (Vaswani et al. 2017, §3.3).

    gated: (act(x Wg + bg) ⊙ (x W₁ + b₁)) W₂ + b₂; with activation="silu" this is SwiGLU (Shazeer
    2020). dropout is on the F hidden numbers.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Activation = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        fast: bool = True,
    ) -> None:
        super().__init__()
        if activation not in REFERENCE:
            raise ValueError(f"activation={activation!r} is not one of {', '.join(REFERENCE)}")
        self.activation = activation
        self.fast = fast
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if gated else None
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B L D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B L D"]:
        activate = (FAST if self.fast and trace is None else REFERENCE)[self.activation]
        if self.gate is None:
            hidden = activate(self.inner(x))  # B L F
        else:
            hidden = activate(self.gate(x)) * self.inner(x)  # B L F
        output = self.outer(self.dropout(hidden))
        if trace is not None:
            trace.record(hidden=hidden, output=output)
        return output
