"""Stepper: the one protocol between models and decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What a model carries from one token to the next, one row per sequence."""

    def select(self, rows: Int[Tensor, "N"]) -> "State":
        """The state of these rows: some dropped, some repeated, in this order."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """A model that reads a source or a prompt, and then one token after another.

    A step may change the state that it is given: go on with the one that it returns, and `select`
    where a sequence forks.
    """

    def start(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, "B"] | None = None, /) -> Any:
        """The state before the first token; lengths: how many tokens of each row are real."""
        ...

    def step(self, tokens: Int[Tensor, "B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]:
        """Read one more token in each row: the logits of the one after it, and the next state."""
        ...


@runtime_checkable
class Reader(Stepper, Protocol):
    """A model that can read several tokens at once, and shows its hidden states.

    `step(tokens, state)` is `output(read(tokens[:, None], state))`.
    """

    max_length: int | float
    """How many tokens it can look back at."""
    can_go_back: bool
    """Whether a state has `back(counts)`, without the last counts[b] tokens of row b, and
    `lengths`, how many of the model's max_length tokens each row has read."""

    @property
    def output(self) -> Callable[[Float[Tensor, "*B D"]], Float[Tensor, "*B V"]]:
        """Hidden states to logits."""
        ...

    def read(
        self, tokens: Int[Tensor, "B L"], state: Any, lengths: Int[Tensor, "B"] | None = None
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        """Read more tokens in each row: the hidden state after each, and the next state.

        lengths: how many tokens of each row are real, the first ones; None: all.
        """
        ...


def repeated(
    first: Int[Tensor, "B"], state: Any, times: int
) -> tuple[Int[Tensor, "R"], Any, Int[Tensor, "R"]]:
    """Each row so many times, side by side: its first token, its state, and which row it was."""
    rows = torch.arange(len(first), device=first.device).repeat_interleave(times)
    return (first[rows], state.select(rows), rows) if times > 1 else (first, state, rows)


def exclude(logits: Float[Tensor, "B V"], never: Sequence[int]) -> Float[Tensor, "B V"]:
    """The logits in float32, −∞ for the tokens of `never`."""
    if never:
        excluded = torch.tensor(never, device=logits.device)
        logits = logits.index_fill(1, excluded, -torch.inf)
    return logits.float()


def log_probabilities(logits: Float[Tensor, "B V"], never: Sequence[int]) -> Float[Tensor, "B V"]:
    """log softmax(logits) in float32, with no probability for the tokens of `never`."""
    return exclude(logits, never).log_softmax(-1)


@dataclass(frozen=True)
class ReplayState:
    """The source and all tokens so far."""

    source: Int[Tensor, "B S"]
    lengths: Int[Tensor, "B"] | None
    tokens: Int[Tensor, "B T"]

    def select(self, rows: Int[Tensor, "N"]) -> "ReplayState":
        lengths = None if self.lengths is None else self.lengths[rows]
        return ReplayState(self.source[rows], lengths, self.tokens[rows])


class Replay:
    """A stepper without a cache: every step computes the whole sequence again.

    The readable path beside the cached one: any `logits(source, target, source_lengths=lengths)`
    over full sequences will do, and both must agree.
    """

    def __init__(self, logits: Callable[..., Tensor]) -> None:
        self._logits = logits

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, "B"] | None = None
    ) -> ReplayState:
        return ReplayState(source, lengths, source.new_empty(source.size(0), 0))

    def step(
        self, tokens: Int[Tensor, "B"], state: ReplayState
    ) -> tuple[Float[Tensor, "B V"], ReplayState]:
        grown = torch.cat([state.tokens, tokens[:, None]], dim=1)
        logits = self._logits(state.source, grown, source_lengths=state.lengths)
        return logits[:, -1], ReplayState(state.source, state.lengths, grown)
