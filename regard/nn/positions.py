"""Where a token stands: sinusoidal positions, learned ones, and rotary ones."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.trace import Trace


def sinusoids(
    length: int, d_model: int, *, device: torch.device | None = None
) -> Float[Tensor, "L D"]:
    """PE(p, 2i) = sin(p / 10000^(2i/D)),  PE(p, 2i+1) = cos(p / 10000^(2i/D)).

    Vaswani et al. 2017, §3.5. Each pair of columns is a clock hand, the first turning once in 2π
    positions and the last once in 2π · 10000; a shift by k turns every hand by a fixed angle, so
    that "k back from here" is the same linear map everywhere.
    """
    position = torch.arange(length, device=device, dtype=torch.float32)[:, None]  # L 1
    even = torch.arange(0, d_model, 2, device=device, dtype=torch.float32)  # D/2: the 2i
    angle = position * torch.exp(even * (-math.log(10_000.0) / d_model))  # L D/2
    table = torch.empty(length, d_model, device=device)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : d_model // 2]  # an odd D has one sine more
    return table


class SinusoidalPositions(nn.Module):
    """Fixed positions of any length; a table holds the first ones, and grows when need be."""

    table: Tensor

    def __init__(self, d_model: int, *, length: int = 512) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, d_model), persistent=False)

    def forward(
        self, length: int, *, past: int = 0, trace: Trace | None = None
    ) -> Float[Tensor, "L D"]:
        """The rows past, past + 1, … of the table, `length` of them."""
        end, table = past + length, self.table
        if end > table.size(0):  # another thread may do the same: go on with one's own
            table = sinusoids(2 * end, table.size(1), device=table.device).to(table.dtype)
            self.table = table
        output = table[past:end]
        if trace is not None:
            trace.record(output=output)
        return output


class LearnedPositions(nn.Module):
    """One trained vector a position, as BERT and GPT have them; there are `length`, and no more."""

    def __init__(self, d_model: int, *, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(
        self, length: int, *, past: int = 0, trace: Trace | None = None
    ) -> Float[Tensor, "L D"]:
        """The vectors of positions past, past + 1, …, `length` of them."""
        if past + length > self.weight.size(0):
            raise ValueError(
                f"position {past + length} was asked for, and this model learned "
                f"{self.weight.size(0)}; sinusoidal positions have no such limit"
            )
        output = self.weight[past : past + length]
        if trace is not None:
            trace.record(output=output)
        return output


class RotaryPositions(nn.Module):
    """R(p) x: every pair of numbers of a query or key at position p turned by its own angle · p.

    Su et al. 2021, §3.2.2, the i-th pair being (xᵢ, xᵢ₊ₖ/₂) and its angle 10000^(−2i/K). Two turns
    cancel but for their difference, R(p)q · R(s)k = q · R(s − p)k, so that a score depends on how
    far apart two tokens are and not on where they stand. Nothing is added to the embeddings.
    """

    def __init__(self, d_head: int) -> None:
        super().__init__()
        if d_head % 2:
            raise ValueError(f"rotary positions turn pairs, and a head of d_head={d_head} is odd")
        self.waves = SinusoidalPositions(d_head)

    def forward(self, x: Float[Tensor, "B H L K"], *, past: int = 0) -> Float[Tensor, "B H L K"]:
        """past is how many positions went before these, when decoding with a cache."""
        waves = self.waves(x.size(2), past=past)  # L K
        sine, cosine = waves[:, 0::2], waves[:, 1::2]  # L K/2
        partner = x.roll(x.size(-1) // 2, dims=-1)  # the other one of each pair
        turned = torch.addcmul(
            x * torch.cat([cosine, cosine], dim=-1), partner, torch.cat([-sine, sine], dim=-1)
        )
        return turned.to(x.dtype)
