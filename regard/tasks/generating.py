"""Generating outputs for many lines: those of like length together, the answers in order."""

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.config import Decode
from regard.data.batches import FEWEST_ROWS, pad
from regard.data.examples import Ids
from regard.decoding import Hypothesis, Stepper, collect, search
from regard.system.engine import Engine
from regard.system.memory import naming_the_batch
from regard.system.threads import side_by_side
from regard.tasks.request import Counts

listener: ContextVar[Callable[[int, int], None] | None] = ContextVar("listener", default=None)
"""Called whenever a batch is done, with its number of lines and the number of all lines."""

MAX_ROWS = 128
"""The most rows of a batch."""
REMEDY = "a smaller decode.beam or decode.max_new_tokens (--beam, --max-new-tokens)"
"""What to try where there is not enough memory."""
MAX_THREADS = 8
"""More threads gain nothing: only one at a time can run Python and say what to compute next."""

Begin = Callable[[Sequence[Ids]], tuple[Any, Int[Tensor, "B"]]]
"""Lines, as token ids -> the state that a search begins from, and the first token of each row."""


def after_source(
    model: Stepper, device: torch.device, *, start: int, end: int, padding: int
) -> Begin:
    """An encoder-decoder reads `source </s>`; its output begins after `<s>`."""

    def begin(sources: Sequence[Ids]) -> tuple[Any, Int[Tensor, "B"]]:
        rows = [[*source, end] for source in sources]
        state = model.start(pad(rows, padding=padding).to(device), _lengths(rows, device))
        return state, torch.full((len(rows),), start, device=device)

    return begin


def after_prompt(
    model: Stepper, device: torch.device, *, begun: Callable[[Ids], Ids], padding: int
) -> Begin:
    """A language model reads a prompt but its last token, which is the first of the search.

    begun: puts what stands before a text before a prompt, so that an empty one has a last token.
    """

    def begin(prompts: Sequence[Ids]) -> tuple[Any, Int[Tensor, "B"]]:
        rows = [begun(prompt) for prompt in prompts]
        read = [row[:-1] for row in rows]
        state = model.start(pad(read, padding=padding).to(device), _lengths(read, device))
        return state, torch.tensor([row[-1] for row in rows], device=device)

    return begin


def _lengths(rows: Sequence[Ids], device: torch.device) -> Int[Tensor, "B"]:
    return torch.tensor([len(row) for row in rows], device=device)


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

    @torch.inference_mode()
    def of_rows(rows: list[int]) -> list[list[Hypothesis]]:
        lines = [sources[row] for row in rows]
        longest = 1 + max(len(line) for line in lines)
        place = f"{len(rows)} lines of up to {longest} tokens at a time"
        with engine.autocast(), naming_the_batch(place, remedy=REMEDY):
            state, first = begin(lines)
            steps = search(
                model,
                state,
                first,
                decode,
                end=end,
                never=never,
                lengths=_lengths(lines, engine.device),
                prefixes=None if prefixes is None else [prefixes[row] for row in rows],
                seeds=[(decode.seed << 32) + numbers[row] for row in rows],
            )
            return collect(steps, n_best=decode.n_best)

    threads = min(torch.get_num_threads(), MAX_THREADS) if engine.device.type == "cpu" else 1
    shares = max(1, min(threads, len(order) // FEWEST_ROWS))
    size = min(MAX_ROWS, max(1, math.ceil(len(order) / shares)))
    batches = [order[start : start + size] for start in range(0, len(order), size)]
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


def count_generated(outputs: Sequence[Sequence[Hypothesis]]) -> Counts:
    """How many outputs were generated, and how many of them were cut."""
    return Counts(outputs=len(outputs), cut=sum(not best.finished for best, *_ in outputs))
