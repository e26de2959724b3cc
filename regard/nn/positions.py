"""Where a token stands in its row: sinusoidal positions, learned ones, and rotary ones.

Positions are a tensor, B L with a value per row, or 1 L where all rows have the same.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.trace import Trace

Pairing = Literal["half", "interleaved"]


def frequencies(width: int, *, base: float = 10_000.0) -> Float[Tensor, "P"]:
    """base^(−2i/width) for i = 0, 1, …: how fast the i-th pair of numbers turns per position."""
    even = torch.arange(0, width, 2, dtype=torch.float32)  # the 2i
    return torch.exp(even * (-math.log(base) / width))


def first_positions(length: int, *, device: torch.device | None = None) -> Int[Tensor, "1 L"]:
    """0, 1, 2, …, for all rows."""
    return torch.arange(length, device=device)[None]


def document_positions(documents: Int[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """0, 1, 2, … within each document; documents: their numbers, those of one side by side."""
    places = first_positions(documents.size(1), device=documents.device)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return places - (places * begins).cummax(dim=1).values


class SinusoidalPositions(nn.Module):
    """PE(p, 2i) = sin(p / 10000^(2i/D)),  PE(p, 2i+1) = cos(p / 10000^(2i/D)).

    Vaswani et al. 2017, §3.5. Each pair of columns is a clock hand, the first turning once in 2π
    positions and the last once in 2π · 10000; a shift by k turns every hand by a fixed angle, so
    that "k back from here" is the same linear map everywhere. There is no last position.
    """

    frequencies: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("frequencies", frequencies(d_model), persistent=False)

    def forward(
        self, positions: Int[Tensor, "B L"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B L D"]:
        angle = positions[..., None] * self.frequencies  # B L D/2
        pairs = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
        output = pairs[..., : self.d_model]  # an odd D has one sine more than cosines
        if trace is not None:
            trace.record(output=output)
        return output


def sinusoids(length: int, d_model: int) -> Float[Tensor, "L D"]:
    """The table of the first `length` sinusoidal positions."""
    table: Tensor = SinusoidalPositions(d_model)(first_positions(length))
    return table[0]


class LearnedPositions(nn.Module):
    """P[p]: one trained vector per position, as in BERT and GPT-2; there are `length` of them."""

    def __init__(self, d_model: int, *, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(
        self, positions: Int[Tensor, "B L"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B L D"]:
        self._check(positions)
        output = F.embedding(positions, self.weight)
        if trace is not None:
            trace.record(output=output)
        return output

    def _check(self, positions: Int[Tensor, "B L"]) -> None:
        """Refuse positions that were not learned: on a CPU, for elsewhere the look would wait."""
        if torch.compiler.is_compiling() or positions.device.type != "cpu" or not positions.numel():
            return
        last = int(positions.max())
        if last >= self.weight.size(0):
            raise ValueError(
                f"position {last + 1} is needed, and this model learned {self.weight.size(0)}; "
                f"sinusoidal positions have no such limit"
            )


class RotaryPositions(nn.Module):
    """R(p) x: every pair of numbers of a query or key at position p rotated by its own angle · p.

    Su et al. 2021, §3.2.2: (a, b) becomes (a cos θ − b sin θ, b cos θ + a sin θ), the i-th pair
    having the angle θ = p · base^(−2i/K). Two rotations cancel but for their difference,
    R(p)q · R(s)k = q · R(s − p)k, so that an attention score depends on how far apart two tokens
    are and not on where they stand. Nothing is added to the embeddings.

    pairing: the i-th pair is (xᵢ, xᵢ₊ₖ/₂), "half" a head apart as in Llama, or (x₂ᵢ, x₂ᵢ₊₁),
    "interleaved" as in the paper and GPT-J. One is the other with dimensions in another order.
    """

    frequencies: Tensor

    def __init__(self, d_head: int, *, base: float = 10_000.0, pairing: Pairing = "half") -> None:
        super().__init__()
        if d_head % 2:
            raise ValueError(f"rotary positions rotate pairs, and d_head={d_head} is odd")
        if pairing not in ("half", "interleaved"):
            raise ValueError(f"pairing={pairing!r} is not one of half, interleaved")
        self.base = base
        self.pairing = pairing
        speed = frequencies(d_head, base=base)
        # sin(−θ) = −sin θ and cos(−θ) = cos θ: the sign of the first sine stands in its angle.
        pairs = torch.stack([-speed, speed])  # 2 K/2
        signed = pairs.flatten() if pairing == "half" else pairs.T.flatten()
        self.register_buffer("frequencies", signed, persistent=False)

    def forward(
        self, x: Float[Tensor, "B H L K"], positions: Int[Tensor, "#B L"] | None = None
    ) -> Float[Tensor, "B H L K"]:
        """positions: where each token of x stands; None: 0, 1, 2, …"""
        if positions is None:
            positions = first_positions(x.size(2), device=x.device)
        angle = (positions[..., None] * self.frequencies)[:, None]  # B 1 L K
        rotated = torch.addcmul(x * angle.cos(), self._partner(x), angle.sin())
        return rotated.to(x.dtype)

    def _partner(self, x: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L K"]:
        """The other number of each pair."""
        if self.pairing == "half":
            return x.roll(x.size(-1) // 2, dims=-1)
        return x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
