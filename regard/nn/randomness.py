"""Where random numbers come from, when several threads sample them at a time."""

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_drawn_from: ContextVar[torch.Generator | None] = ContextVar("drawn_from", default=None)
_turn = threading.RLock()
"""Held by the thread that samples from torch's own generator, which all threads share."""


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's own generator, seeded, for this thread alone; afterwards it is as it was before.

    Threads take turns: what one samples within it is a function of its seed, whatever others do.
    """
    with _turn, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """This thread draws from a generator of its own, whatever the others do meanwhile."""
    before = _drawn_from.set(generator)
    try:
        yield
    finally:
        _drawn_from.reset(before)


def generator() -> torch.Generator | None:
    """What to draw from here: this thread's own, or None for torch's, which all share."""
    if torch.compiler.is_compiling():  # it cannot look into a context, and does without threads
        return None
    return _drawn_from.get()
