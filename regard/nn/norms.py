"""The norms by name."""

from typing import Literal

from regard.nn.layer_norm import LayerNorm
from regard.nn.rms_norm import RMSNorm

Norm = LayerNorm | RMSNorm
NormKind = Literal["layer", "rms"]


def make_norm(
    kind: NormKind, d_model: int, *, epsilon: float = 1e-5, bias: bool = True, fast: bool = True
) -> Norm:
    """A norm of this kind; RMS norm has no bias in any case."""
    if kind == "layer":
        return LayerNorm(d_model, epsilon=epsilon, bias=bias, fast=fast)
    if kind == "rms":
        return RMSNorm(d_model, epsilon=epsilon, fast=fast)
    raise ValueError(f"norm_kind={kind!r} is not one of layer, rms")
