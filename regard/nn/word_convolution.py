"""Convolution over words: filters that look for a few neighbouring words, wherever they stand."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.nn.trace import Trace


class WordConvolution(nn.Module):
    """What each filter finds around every word, and the most that it finds (Kim 2014, §2).

        cₜ = relu(w · x[t − a : t + b] + β)    for every filter w of every width a + 1 + b
        ĉ  = maxₜ cₜ

    A window may reach past either end of its text, where there are zeros: a text may be shorter
    than a filter, and padding changes nothing. An empty text has ĉ = 0.

    filters: how many there are of each width. fast=False, or a trace: the sum over each window is
    written out; by default it is torch's kernel.
    """

    def __init__(
        self,
        d_input: int,
        *,
        filters: int = 100,
        widths: Sequence[int] = (3, 4, 5),
        fast: bool = True,
    ) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.d_output = filters * len(self.widths)
        self.fast = fast
        self.filters = nn.ModuleList(nn.Conv1d(d_input, filters, width) for width in self.widths)

    def forward(
        self,
        x: Float[Tensor, "B L E"],
        mask: Bool[Tensor, "B L"],
        *,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B L D"], Float[Tensor, "B D"]]:
        """cₜ for every word, and ĉ; mask: True where a word is real."""
        real = mask[:, :, None]  # B L 1
        x = x * real
        by_window = self._by_kernel if self.fast and trace is None else self._written_out
        found = [
            by_window(x, filters) for filters in self.filters if isinstance(filters, nn.Conv1d)
        ]
        hidden = torch.cat(found, dim=-1).relu() * real  # B L D
        largest, place = hidden.max(dim=1)  # B D: none is below 0
        if trace is not None:
            trace.record(hidden=hidden, place=place, largest=largest)
        return hidden, largest

    def _by_kernel(self, x: Float[Tensor, "B L E"], filters: nn.Conv1d) -> Float[Tensor, "B L F"]:
        output: Tensor = filters(_widened(x, filters).transpose(1, 2))
        return output.transpose(1, 2)

    def _written_out(self, x: Float[Tensor, "B L E"], filters: nn.Conv1d) -> Float[Tensor, "B L F"]:
        width = filters.weight.size(-1)
        windows = _widened(x, filters).unfold(1, width, 1)  # B L E W
        by_filter = torch.einsum("blew,few->blf", windows, filters.weight)
        return by_filter if filters.bias is None else by_filter + filters.bias


def _widened(x: Float[Tensor, "B L E"], filters: nn.Conv1d) -> Float[Tensor, "B M E"]:
    """With zeros at both ends, so that there is a window around every word."""
    width: int = filters.weight.size(-1)
    before = (width - 1) // 2
    return F.pad(x, (0, 0, before, width - 1 - before))
