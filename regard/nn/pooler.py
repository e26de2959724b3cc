"""Pooler: what BERT makes of its first token to stand for the whole text."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.trace import Trace


class Pooler(nn.Module):
    """tanh(W h₁ + b), h₁ the hidden state of [CLS] (Devlin et al. 2019; in its code alone).

    It is not the hidden state of [CLS] itself, and it was trained with the next-sentence loss:
    an encoder that was pre-trained without one has a pooler that means nothing yet.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)

    def forward(
        self, hidden: Float[Tensor, "B L D"], *, trace: Trace | None = None
    ) -> Float[Tensor, "B D"]:
        output = torch.tanh(self.linear(hidden[:, 0]))
        if trace is not None:
            trace.record({"output": "BD"}, output=output)
        return output
