"""Several models that write together: a token is as likely as they think on average."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.stepper import Stepper


@dataclass(frozen=True)
class EnsembleState:
    """The state of every member."""

    members: list[Any]

    def select(self, rows: Int[Tensor, "N"]) -> "EnsembleState":
        return EnsembleState([member.select(rows) for member in self.members])


class Ensemble:
    """log (1/M) Σₘ pₘ(token | tokens before it, source): a Stepper made of M others.

    All have one vocabulary. Sutskever et al. 2014, §3.6: the mean of models that went different
    ways is better than any of them.
    """

    def __init__(self, members: Sequence[Stepper]) -> None:
        if not members:
            raise ValueError("an ensemble needs at least one member")
        self.members = list(members)

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, "B"] | None = None
    ) -> EnsembleState:
        members: list[Any] = list(self.members)
        return EnsembleState([member.start(source, lengths) for member in members])

    def step(
        self, tokens: Int[Tensor, "B"], state: EnsembleState
    ) -> tuple[Float[Tensor, "B V"], EnsembleState]:
        stepped = [
            member.step(tokens, of_member)
            for member, of_member in zip(self.members, state.members, strict=True)
        ]
        return _mean([scores for scores, _ in stepped]), EnsembleState([one for _, one in stepped])

    def __call__(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        *,
        source_lengths: Int[Tensor, "B"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """The same at every position of a given target, of members that can be called so."""
        members = cast(list[Callable[..., Tensor]], self.members)
        return _mean([member(source, target, source_lengths=source_lengths) for member in members])


def _mean(scores: list[Float[Tensor, "*B V"]]) -> Float[Tensor, "*B V"]:
    log_p = torch.stack([one.float().log_softmax(-1) for one in scores])  # M *B V
    return log_p.logsumexp(dim=0) - math.log(len(scores))
