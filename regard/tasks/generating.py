"""Generating outputs for many lines: those of like length together, the answers in order."""

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.config import Decode
from regard.data.batches import FEWEST_ROWS, Padded, padded
from regard.data.examples import Ids
from regard.decoding import Hypothesis, Stepper, search
from regard.system.engine import Engine
from regard.system.memory import naming_the_batch
from regard.system.threads import side_by_side

listener: ContextVar[Callable[[int, int], None] | None] = ContextVar("listener", default=None)
"""Called whenever a batch is done, with its number of lines and the number of all lines."""

MAX_ROWS = 128
"""The most rows of a batch."""
REMEDY = "a smaller decode.beam or decode.max_new_tokens (--beam, --max-new-tokens)"
"""What to try where there is not enough memory."""
MAX_THREADS = 8
"""More threads gain nothing: only one at a time can run Python and say what to compute next."""

Begin = Callable[[Sequence[Ids]], tuple[Padded, int]]
"""Token ids of some lines -> what the model reads, and the first token of each output."""


def after_source(model: Stepper, device: torch.device, *, start: int, end: int) -> Begin:
    """An encoder-decoder reads `source </s>`; its output begins after `<s>`."""
    return lambda sources: (padded([[*source, end] for source in sources]).to(device), start)


def after_prompt(model: Stepper, device: torch.device, *, start: int) -> Begin:
    """A language model reads `start prompt`, and goes on."""
    return lambda prompts: (padded([[start, *prompt] for prompt in prompts]).to(device), start)


class _WithLengths:
    """A stepper that knows how many tokens of each source are real."""

    def __init__(self, model: Any, lengths: Int[Tensor, "B"]) -> None:
        self._lengths = lengths
        self._start = model.start
        self.step = model.step

    def start(self, source: Int[Tensor, "B S"]) -> Any:
        times = len(source) // len(self._lengths)  # outputs that are sampled for each source
        return self._start(source, self._lengths.repeat_interleave(times))


def generate(
    model: Stepper,
    sources: Sequence[Ids],
    begin: Begin,
    decode: Decode,
    engine: Engine,
    *,
    end: int,
    never: Sequence[int],
    prefixes: Sequence[Ids] | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each source or prompt.

    begin: how some of them become the beginning of a search. end, never: as in `search`.
    prefixes: what each output begins with. numbers: the line number of each source; what is sampled
    for a line depends on it, and not on the lines in the same batch.
    """
    numbers = range(len(sources)) if numbers is None else numbers
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))

    def of_rows(rows: list[int]) -> list[list[Hypothesis]]:
        read, first = begin([sources[row] for row in rows])
        place = f"{len(rows)} lines of up to {read.tokens.size(1)} tokens at a time"
        with engine.autocast(), naming_the_batch(place, remedy=REMEDY):
            return search(
                _WithLengths(model, read.lengths),
                read.tokens,
                decode,
                start=first,
                end=end,
                lengths=read.lengths - 1,
                never=never,
                prefixes=None if prefixes is None else [prefixes[row] for row in rows],
                seeds=[(decode.seed << 32) + numbers[row] for row in rows],
            )

    threads = min(torch.get_num_threads(), MAX_THREADS) if engine.device.type == "cpu" else 1
    shares = max(1, min(threads, len(order) // FEWEST_ROWS))
    size = min(MAX_ROWS, max(1, math.ceil(len(order) / shares)))
    batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
    batches.reverse()  # the longest first, so that no thread is left alone with them at the end
    outputs: list[list[Hypothesis]] = [[] for _ in sources]
    on_batch = listener.get()
    with side_by_side(min(threads, len(batches))) as mapped:
        for rows, of_batch in zip(batches, mapped(of_rows, batches), strict=True):
            for row, hypotheses in zip(rows, of_batch, strict=True):
                outputs[row] = hypotheses
            if on_batch is not None:
                on_batch(len(rows), len(sources))
    return outputs
