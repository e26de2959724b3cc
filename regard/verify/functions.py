"""Activations, softmax, losses and norms against torch's: values and gradients."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn import (
    LayerNorm,
    RMSNorm,
    activations,
    attend,
    causal_mask,
    log_softmax,
    softmax,
)
from regard.training.loss import cross_entropy, cross_entropy_reference
from regard.training.r_drop import r_drop, r_drop_reference
from regard.verify.check import Check, largest_with_gradients
from regard.verify.same_weights import affine_weights, copied

Function = Callable[[Tensor], Tensor]


def compare_functions(ours: Function, theirs: Function, x: Tensor) -> float:
    """The largest difference of two functions of one tensor, and of their gradients."""
    return largest_with_gradients(
        lambda inputs: ours(inputs[0]), lambda inputs: theirs(inputs[0]), [x]
    )


def _summed(loss: Callable[..., Tensor], logits: Tensor, *, smoothing: float) -> Tensor:
    """A loss over fixed targets, of which 0 is padding and does not count."""
    return loss(logits, torch.tensor([3, 0, 8, 1, 5]), smoothing=smoothing)[None]


def _r_drop(loss: Callable[..., Tensor], logits: Tensor) -> Tensor:
    """A loss of two forward passes, over fixed targets, of which 0 is padding."""
    return loss(logits, torch.tensor([[3, 0, 8], [1, 5, 0]]), alpha=5.0, smoothing=0.1)[None]


def function_checks() -> Iterator[Check]:
    """The written-out functions and norms against torch's."""
    x = torch.randn(5, 9, generator=torch.Generator().manual_seed(1)) * 4
    pairs: dict[str, tuple[Function, Function]] = {
        "softmax": (softmax, lambda x: x.softmax(-1)),
        "log-softmax": (log_softmax, lambda x: x.log_softmax(-1)),
        "ReLU": (activations.relu, F.relu),
        "GELU": (activations.gelu, F.gelu),
        "GELU (tanh)": (activations.gelu_tanh, partial(F.gelu, approximate="tanh")),
        "SiLU": (activations.silu, F.silu),
        "squared ReLU": (activations.squared_relu, lambda x: F.relu(x).square()),
    }
    for smoothing in (0.0, 0.1):
        pairs[f"cross-entropy (smoothing {smoothing})"] = (
            partial(_summed, cross_entropy_reference, smoothing=smoothing),
            partial(_summed, cross_entropy, smoothing=smoothing),
        )
    for name, (ours, theirs) in pairs.items():
        yield Check(f"{name} = torch's, and gradients", partial(compare_functions, ours, theirs, x))
    yield from _norm_checks(x)
    logits = torch.randn(4, 3, 9, generator=torch.Generator().manual_seed(3)) * 4
    yield Check(
        "R-Drop, its gradient written out = torch's autograd",
        partial(
            compare_functions, partial(_r_drop, r_drop), partial(_r_drop, r_drop_reference), logits
        ),
    )
    q, k, v = torch.randn(3, 2, 4, 6, 8, generator=torch.Generator().manual_seed(2))
    mask = causal_mask(6)
    yield Check(
        "softmax(QKᵀ/√K)V = torch's fused attention, and gradients",
        lambda: largest_with_gradients(
            lambda x: attend(x[0], x[1], x[2], mask)[0],
            lambda x: F.scaled_dot_product_attention(x[0], x[1], x[2], attn_mask=mask),
            [q, k, v],
        ),
    )


def _norm_checks(x: Tensor) -> Iterator[Check]:
    """Layer norm and RMS norm against torch's."""
    norm, torch_norm = LayerNorm(9, fast=False), nn.LayerNorm(9)
    yield Check(
        "LayerNorm = torch.nn.LayerNorm, and gradients",
        lambda: largest_with_gradients(
            lambda inputs: norm(inputs[0]),
            lambda inputs: torch_norm(inputs[0]),
            [x],
            copied(affine_weights(norm, torch_norm)),
        ),
    )
    rms, torch_rms = RMSNorm(9, fast=False), nn.RMSNorm(9, eps=1e-5)
    yield Check(
        "RMSNorm = torch.nn.RMSNorm, and gradients",
        lambda: largest_with_gradients(
            lambda inputs: rms(inputs[0]),
            lambda inputs: torch_rms(inputs[0]),
            [x],
            copied([(rms.weight, torch_rms.weight)]),
        ),
    )
