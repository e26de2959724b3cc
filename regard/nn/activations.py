"""Activation functions, each written out beside torch's own."""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "squared-relu"]


def relu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """max(0, x)."""
    return x.clamp(min=0)


def gelu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """x Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016)."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """x ½ (1 + tanh(√(2/π) (x + 0.044715 x³))): GELU as BERT's first code and GPT-2 compute it."""
    return x * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """x σ(x) = x / (1 + exp(−x)), also called Swish (Ramachandran et al. 2017)."""
    return x / (1 + torch.exp(-x))


def squared_relu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """max(0, x)² (So et al. 2021)."""
    return x.clamp(min=0) ** 2


REFERENCE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "silu": silu,
    "squared-relu": squared_relu,
}
FAST: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "squared-relu": lambda x: F.relu(x).square(),
}
