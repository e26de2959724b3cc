"""Standard error that cannot fail: whatever cannot be told is not a failure."""

import contextlib
import io
import sys
from typing import Any


def standard_error() -> io.TextIOBase:
    """Standard error as it is now; a text that cannot be written there is dropped.

    The stream may be closed, its reader may have left, or it may be a file on a full disk: what a
    command does, and the code that it ends with, do not depend on it.
    """
    return _Unfailing(sys.stderr)


class _Unfailing(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, stream: Any) -> None:
        # None: it is closed. A progress bar may put itself in the place of sys.stderr later.
        self._stream = stream

    def write(self, text: str) -> int:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # ValueError: closed within Python
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):
                self._stream.flush()

    def isatty(self) -> bool:
        with contextlib.suppress(ValueError):
            return self._stream is not None and self._stream.isatty()
        return False
