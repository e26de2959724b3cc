"""A stepper whose probabilities can be listed, and whole searches over it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from regard.decoding import Hypothesis, Step, Stepper, beam_search, collect, greedy

START, END = 1, 2


@dataclass
class TableState:
    """The tokens so far, row by row."""

    prefixes: list[tuple[int, ...]]
    seeds: list[int]

    def select(self, rows: torch.Tensor) -> "TableState":
        chosen = rows.tolist()
        return TableState([self.prefixes[i] for i in chosen], [self.seeds[i] for i in chosen])


class Table:
    """A stepper whose logits are random, but fixed, for every source and prefix."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def logits(self, seed: int, prefix: tuple[int, ...]) -> torch.Tensor:
        key = hash((seed, prefix)) % 2**31
        return torch.randn(self.vocabulary, generator=torch.Generator().manual_seed(key)) * 2

    def start(self, source: torch.Tensor, lengths: torch.Tensor | None = None) -> TableState:
        return TableState([()] * len(source), source[:, 0].tolist())

    def step(self, tokens: torch.Tensor, state: TableState) -> tuple[torch.Tensor, TableState]:
        prefixes = [(*p, t) for p, t in zip(state.prefixes, tokens.tolist(), strict=True)]
        rows = [self.logits(s, p) for s, p in zip(state.seeds, prefixes, strict=True)]
        return torch.stack(rows), TableState(prefixes, state.seeds)


@torch.inference_mode()
def steps(
    strategy: Callable[..., Iterator[Step]],
    stepper: Stepper,
    source: torch.Tensor,
    *,
    start: int = START,
    end: int = END,
    **options,
) -> Iterator[Step]:
    """The steps of a search after these sources."""
    lengths = (source != 0).sum(dim=1)
    state, first = stepper.start(source, lengths), torch.full((len(source),), start)
    yield from strategy(stepper, state, first, end=end, **options)


def greedily(stepper: Stepper, source: torch.Tensor, **options) -> list[Hypothesis]:
    """One hypothesis per source."""
    return [hypotheses for (hypotheses,) in collect(steps(greedy, stepper, source, **options))]


def by_beam(
    stepper: Stepper, source: torch.Tensor, *, n_best: int = 1, **options
) -> list[list[Hypothesis]]:
    """The n_best of each source."""
    return collect(steps(beam_search, stepper, source, n_best=n_best, **options), n_best=n_best)


def after_end(prompt: list[int]) -> list[int]:
    """A prompt as a language model reads it: after the end of another text."""
    return [END, *prompt]
