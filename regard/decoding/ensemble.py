"""Several models that generate together: a token's probability is the mean of theirs."""

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

    All have one vocabulary. Sutskever et al. 2014, §3.6: the mean of models that were trained apart
    is better than any of them.
    """

    def __init__(self, members: Sequence[Stepper]) -> None:
        if not members:
            raise ValueError("an ensemble needs at least one member")
        self.members = list(members)

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, "B"] | None = None
    ) -> EnsembleState:
        return EnsembleState([member.start(source, lengths) for member in self.members])

    def step(
        self, tokens: Int[Tensor, "B"], state: EnsembleState
    ) -> tuple[Float[Tensor, "B V"], EnsembleState]:
        stepped = [
            member.step(tokens, member_state)
            for member, member_state in zip(self.members, state.members, strict=True)
        ]
        return _mean([logits for logits, _ in stepped]), EnsembleState(
            [member_state for _, member_state in stepped]
        )

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


def _mean(logits: list[Float[Tensor, "*B V"]]) -> Float[Tensor, "*B V"]:
    """The logarithm of the mean probability."""
    log_p = torch.stack([of_member.float().log_softmax(-1) for of_member in logits])  # M *B V
    return log_p.logsumexp(dim=0) - math.log(len(logits))
