"""Memory that runs out: found at the start, by the largest batch, and said in a sentence."""

import contextlib
from collections.abc import Iterator

import torch

from regard.errors import UserError

SIGNS = ("out of memory", "can't allocate memory", "not enough memory")
"""How torch says it on a GPU and on a CPU."""


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
