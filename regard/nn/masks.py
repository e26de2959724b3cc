"""Masks: boolean, True = may attend, broadcastable to B H T S, combined with `&`."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(lengths: Int[Tensor, "B"], length: int) -> Bool[Tensor, "B 1 1 L"]:
    """True at the first lengths[b] of the `length` positions of row b; the rest is padding.

    lengths[b] is how many tokens of a row are real; padding stands at the end.
    """
    positions = torch.arange(length, device=lengths.device)
    return (positions < lengths[:, None])[:, None, None, :]


def document_mask(documents: Int[Tensor, "B L"]) -> Bool[Tensor, "B 1 L L"]:
    """True where query and key belong to one document of their row; documents: their numbers."""
    return (documents[:, :, None] == documents[:, None, :])[:, None]


def causal_mask(
    length: int, past: int = 0, *, device: torch.device | None = None
) -> Bool[Tensor, "T S"]:
    """Position t may look at positions up to itself: S = past + length, and s ≤ past + t.

    past is how many positions a cache already holds:

        causal_mask(3)     causal_mask(2, past=1)
        1 0 0              1 1 0
        1 1 0              1 1 1
        1 1 1
    """
    positions = torch.arange(past + length, device=device)
    return positions[None, :] <= positions[past:, None]


def last_allowed(mask: Bool[Tensor, "*B T S"], window: int) -> Bool[Tensor, "*B T S"]:
    """The last `window` of the keys that each query may look at.

    Keys that a mask hides, such as padding between a prompt and its continuation, do not count.
    """
    from_the_end = mask.flip(-1).cumsum(-1).flip(-1)  # allowed keys at s and after it
    return mask & (from_the_end <= window)


def attention_mask(
    mask: Bool[Tensor, "..."] | None,
    *,
    queries: int,
    keys: int,
    is_causal: bool,
    window: int | None = None,
    device: torch.device | None = None,
) -> Bool[Tensor, "..."] | None:
    """One mask for all of: the given mask, s ≤ past + t, and the window; None: all is allowed.

    The queries are the last positions among the keys, so that past = keys − queries. A single
    query is the last position: causality hides nothing from it.
    """
    check_mask(mask)
    if window is not None and not is_causal:
        raise ValueError(f"window={window} looks back from each position: it needs is_causal=True")
    if not is_causal or (queries == 1 and window is None):
        return mask
    causal = causal_mask(queries, keys - queries, device=device)  # T S
    if mask is not None:
        return mask & causal if window is None else last_allowed(mask & causal, window)
    # Where no key is hidden, a window is the causal mask without its lower triangle.
    return causal if window is None else causal.triu(keys - queries - window + 1)


def check_mask(mask: Tensor | None) -> None:
    """Refuse a mask that is not boolean: 0 means "may attend" to some, "may not" to others."""
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(
            f"a mask must be boolean with True where attention is allowed, not {mask.dtype}; "
            f"write mask.bool() if 1 means allowed in it, or mask == 0 if it is added to scores"
        )
