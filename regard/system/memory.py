"""RAM: a sentence when it runs out, and freed buffers that are kept for the next step."""

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from regard.system.errors import UserError

SIGNS = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says when memory runs out, on a GPU and on a CPU."""


LEARNING = (
    "half the train.batch_tokens (or batch_size) and train.accumulate=2, which is the same update; "
    "or a shorter data.max_length, or a smaller model"
)
"""What to try when an update does not fit."""


@contextlib.contextmanager
def naming_the_batch(place: str, *, remedy: str = LEARNING) -> Iterator[None]:
    """Turn a failed allocation into a sentence that names the batch it failed on."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not known and not any(sign in str(error).lower() for sign in SIGNS):
            raise
        raise UserError(
            f"There is not enough memory for {place}. Nothing that was saved is lost. Try {remedy}."
        ) from None


MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")
"""Where Linux says how much memory there is, and how much of it the process may use."""


def available_memory() -> int | None:
    """Bytes of RAM that could be allocated now; None where the system does not say."""
    with contextlib.suppress(OSError):
        match = re.search(r"^MemAvailable:\s*(\d+) kB", MEMINFO.read_text(), flags=re.MULTILINE)
        if match:
            free = 1024 * int(match[1])
            with contextlib.suppress(OSError, ValueError):  # no limit, or "max"
                limit = int((GROUP / "memory.max").read_text())
                free = min(free, limit - int((GROUP / "memory.current").read_text()))
            return free
    return None


def require_memory(needed: int, *, what: str, remedy: str) -> None:
    """Refuse what memory cannot hold, before any of it is allocated.

    needed: bytes, roughly. what: what they are for, as the subject of the sentence.
    """
    free = available_memory()
    if free is not None and needed > free:
        raise UserError(
            f"{what} would need about {_size(needed)} of memory, and {_size(max(0, free))} are "
            f"available. Try {remedy}."
        )


def _size(count: int | float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB" if count < 1000 else f"{count:,.0f} TB"


def keep_freed_memory() -> None:
    """Keep glibc from handing large buffers back to the system after every step.

    By default it maps each large buffer anew, and the kernel zeroes every page of it again, which
    can take a third of a step (benchmarks/train_speed.py measures it). This holds for the whole
    process, so it is for one that trains, and for the commands.
    """
    if not sys.platform.startswith("linux") or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return  # another allocator, or the user has decided
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        trim_threshold, mmap_threshold = -1, -3
        for size in (1 << 30, 1 << 25):  # an older glibc takes no more than the second
            if mallopt(mmap_threshold, size):
                mallopt(trim_threshold, size)
                return
