"""Where random numbers come from, when several threads draw them at a time."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_drawn_from: ContextVar[torch.Generator | None] = ContextVar("drawn_from", default=None)


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
