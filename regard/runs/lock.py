"""One process at a time trains into a run directory."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from regard.system.errors import UserError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a directory; refuse if another process holds it."""
    if fcntl is None:  # no such locks on this system
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{directory} is being trained by another process.") from None
