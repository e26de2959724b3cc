"""Stepper: the one protocol between models and decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What a model carries from one token to the next, a row for every sequence."""

    def select(self, rows: Int[Tensor, "N"]) -> "State":
        """The state of these rows: some dropped, some repeated, in this order."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """A model that reads a source and then scores one next token after another.

    A step may change the state it is given: go on with the one that it returns, and `select`
    where a sequence forks.
    """

    def start(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, "B"] | None = None, /
    ) -> Any:
        """The state before the first token; lengths None: no padding in the source."""
        ...

    def step(self, tokens: Int[Tensor, "B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]:
        """Take one more token in each row: unnormalised scores of the one after it."""
        ...


def without(scores: Float[Tensor, "B V"], never: Sequence[int]) -> Float[Tensor, "B V"]:
    """The scores, with no chance for the tokens of `never`."""
    if not never:
        return scores
    return scores.index_fill(1, torch.tensor(never, device=scores.device), -torch.inf)


@dataclass(frozen=True)
class ReplayState:
    """The source and all tokens so far."""

    source: Int[Tensor, "B S"]
    tokens: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"] | None = None

    def select(self, rows: Int[Tensor, "N"]) -> "ReplayState":
        lengths = None if self.lengths is None else self.lengths[rows]
        return ReplayState(self.source[rows], self.tokens[rows], lengths)


class Replay:
    """A stepper without a cache: every step computes the whole sequence again.

    The readable path beside the cached one: any `scores(source, target)` over full sequences will
    do, and both must agree.
    """

    def __init__(self, scores: Callable[..., Tensor]) -> None:
        self._scores = scores

    def start(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, "B"] | None = None
    ) -> ReplayState:
        return ReplayState(source, source.new_empty(source.size(0), 0), source_lengths)

    def step(
        self, tokens: Int[Tensor, "B"], state: ReplayState
    ) -> tuple[Float[Tensor, "B V"], ReplayState]:
        grown = torch.cat([state.tokens, tokens[:, None]], dim=1)
        known = {} if state.lengths is None else {"source_lengths": state.lengths}
        scores = self._scores(state.source, grown, **known)[:, -1]
        return scores, ReplayState(state.source, grown, state.lengths)
