"""The generator of random numbers of each thread, where several threads sample at once."""

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_generator: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)
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
def sampling_from(generator: torch.Generator) -> Iterator[None]:
    """Within this context, this thread samples from `generator`; other threads are unaffected."""
    token = _generator.set(generator)
    try:
        yield
    finally:
        _generator.reset(token)


def generator() -> torch.Generator | None:
    """The generator of this thread; None: torch's, which all threads share."""
    if (
        torch.compiler.is_compiling()
    ):  # a graph cannot read a context variable; compiled models use one thread
        return None
    return _generator.get()
