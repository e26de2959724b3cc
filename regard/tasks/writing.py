"""Writing outputs for many lines: those of like length together, the answers in order."""

from collections.abc import Callable

from torch import Tensor

from regard.config import Decode
from regard.data.examples import Ids
from regard.data.tokenizer import END, NEVER_WRITTEN, START
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
) -> list[list[Hypothesis]]:
    """The hypotheses of each source; batch: how sources become what the model reads."""
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for begin in range(0, len(order), TOGETHER):
        rows = order[begin : begin + TOGETHER]
        read = batch([sources[row] for row in rows]).to(engine.device)
        with engine.autocast():
            hypotheses = search(model, read, decode, start=START, end=END, never=NEVER_WRITTEN)
        for row, of_row in zip(rows, hypotheses, strict=True):
            found[row] = of_row
    return found
