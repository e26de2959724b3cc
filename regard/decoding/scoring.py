"""How probable a given text is to a language model, token by token; and what filters keep."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.config import Decode
from regard.decoding.filters import filtered, filters
from regard.decoding.step import Step
from regard.decoding.stepper import Reader

CHUNK = 512
"""How many tokens a model without a limit reads at a time."""


@torch.inference_mode()
def text_log_probabilities(
    model: Reader, tokens: Sequence[int], *, start: int, device: torch.device
) -> list[float]:
    """log p of each token, given those before it and `start`.

    A model with a context reads one block of that many tokens after another: what it looks back at
    is what stands before a token in its block.
    """
    length = int(min(model.max_length, CHUNK))
    text = torch.tensor([start, *tokens], device=device)
    log_p: list[float] = []
    for begin in range(0, len(tokens), length):
        block = text[begin : begin + length + 1]
        hidden, _ = model.read(block[None, :-1], model.start(block[None, :0]))
        after = model.output(hidden[0]).float().log_softmax(-1)  # L V
        log_p += after.gather(1, block[1:, None])[:, 0].tolist()
    return log_p


class KeptMass:
    """Reads along with a search: the mean probability of the tokens that it chooses among.

    All of it without a filter; for greedy search that of the best token, for contrastive search
    that of its candidates. In beam search, which compares whole sequences, there is no such number.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode, self._filters = decode, filters(decode)
        self._sum, self._count = 0.0, 0

    def watch(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The same steps."""
        for step in steps:
            mass = self._mass(step.next_log_probabilities)
            self._sum, self._count = self._sum + float(mass.sum()), self._count + len(mass)
            yield step

    def _mass(self, log_p: Float[Tensor, "R V"]) -> Float[Tensor, "R"]:
        best = {"greedy": 1, "contrastive": self._decode.candidates}.get(self._decode.strategy)
        if best is not None:
            return log_p.topk(min(best, log_p.size(1))).values.exp().sum(dim=-1)
        kept = filtered(log_p, self._filters) > -torch.inf
        return log_p.exp().where(kept, 0).sum(dim=-1)

    @property
    def mean(self) -> float | None:
        """Over all steps and rows; None of a search by beams."""
        if "beam" in self._decode.strategy or not self._count:
            return None
        return self._sum / self._count
