"""Writing outputs for many lines: those of like length together, the answers in order."""

from collections.abc import Callable, Sequence

from torch import Tensor

from regard.config import Decode
from regard.data.examples import Ids
from regard.data.tokenizer import END, NEVER_WRITTEN, PADDING, START
from regard.decoding import Hypothesis, Stepper, search
from regard.training.engine import Engine

TOGETHER = 128
"""Rows of a batch."""


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
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for begin in range(0, len(order), TOGETHER):
        rows = order[begin : begin + TOGETHER]
        read = batch([sources[row] for row in rows]).to(engine.device)
        with engine.autocast():
            hypotheses = search(
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
        for row, of_row in zip(rows, hypotheses, strict=True):
            found[row] = of_row
    return found
