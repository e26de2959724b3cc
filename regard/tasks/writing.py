"""Writing outputs for many lines: those of like length together, the answers in order."""

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar

import torch
from torch import Tensor

from regard.config import Decode
from regard.data.batches import FEWEST_ROWS
from regard.data.examples import Ids
from regard.data.tokenizer import END, NEVER_WRITTEN, PADDING, START
from regard.decoding import Hypothesis, Stepper, search
from regard.system.engine import Engine
from regard.system.memory import naming_the_batch
from regard.system.threads import side_by_side

listener: ContextVar[Callable[[int, int], None] | None] = ContextVar("listener", default=None)
"""Is told, whenever a batch is done, how many lines it had and how many there are in all."""

TOGETHER = 128
"""The most rows of a batch."""
WRITING = "a smaller decode.beam or decode.max_new_tokens (--beam, --max-new-tokens)"
"""What to do where there is no memory for it."""
MOST_THREADS = 8
"""That have a batch each: Python lets one of them at a time say what to compute next."""


def write(
    model: Stepper,
    sources: list[Ids],
    batch: Callable[[list[Ids]], Tensor],
    decode: Decode,
    engine: Engine,
    *,
    prefixes: Sequence[Ids] | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source; batch: how sources become what the model reads.

    prefixes: what each output begins with. numbers: which line each source is; what is drawn for it
    depends on that, and not on the company it is read in.
    """
    numbers = range(len(sources)) if numbers is None else numbers
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))

    def of_rows(rows: list[int]) -> list[list[Hypothesis]]:
        read = batch([sources[row] for row in rows]).to(engine.device)
        place = f"{len(rows)} lines of up to {read.size(1)} tokens at a time"
        with engine.autocast(), naming_the_batch(place, remedy=WRITING):
            return search(
                model,
                read,
                decode,
                start=START,
                end=END,
                padding=PADDING,
                never=NEVER_WRITTEN,
                prefixes=None if prefixes is None else [prefixes[row] for row in rows],
                seeds=[(decode.seed << 32) + numbers[row] for row in rows],
            )

    threads = min(torch.get_num_threads(), MOST_THREADS) if engine.device.type == "cpu" else 1
    shares = max(1, min(threads, len(order) // FEWEST_ROWS))
    size = min(TOGETHER, max(1, math.ceil(len(order) / shares)))
    batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
    batches.reverse()  # the longest first, so that no thread is left alone with them at the end
    found: list[list[Hypothesis]] = [[] for _ in sources]
    told = listener.get()
    with side_by_side(min(threads, len(batches))) as mapped:
        for rows, hypotheses in zip(batches, mapped(of_rows, batches), strict=True):
            for row, of_row in zip(rows, hypotheses, strict=True):
                found[row] = of_row
            if told is not None:
                told(len(rows), len(sources))
    return found
