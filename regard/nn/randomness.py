"""The generator of random numbers of each thread, where several threads sample at once."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_generator: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


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
