"""Equalities among the parts: one way to compute a thing, and another."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from regard.nn import (
    RMSNorm,
    RotaryPositions,
    SelfAttention,
    attend,
    attend_fast,
    causal_mask,
)
from regard.verify.check import Check, largest, largest_with_gradients

D_MODEL, HEADS, KV_HEADS, LENGTH = 32, 4, 2, 9


def _sequence() -> Tensor:
    return torch.randn(2, LENGTH, D_MODEL, generator=torch.Generator().manual_seed(1))


def causal_by_kernel() -> float:
    """is_causal in the fused kernel, and a causal mask in the written-out path."""
    q, k, v = torch.randn(3, 2, HEADS, LENGTH, 8, generator=torch.Generator().manual_seed(2))
    return largest_with_gradients(
        lambda x: attend_fast(x[0], x[1], x[2], is_causal=True),
        lambda x: attend(x[0], x[1], x[2], causal_mask(LENGTH))[0],
        [q, k, v],
    )


def grouped_queries(*, fast: bool) -> float:
    """Fewer key and value heads than query heads, and as many, with repeated weights."""
    few = SelfAttention(D_MODEL, HEADS, n_kv_heads=KV_HEADS, fast=fast)
    many = SelfAttention(D_MODEL, HEADS, fast=fast)
    with torch.no_grad():
        for ours, theirs in (
            (few.projection.weight, many.projection.weight),
            (few.projection.bias, many.projection.bias),
        ):
            q, k, v = ours.split(few.projection.heights)
            repeated = [_for_every_head(part, few.d_head) for part in (k, v)]
            theirs.copy_(torch.cat([q, *repeated]))
        many.output.load_state_dict(few.output.state_dict())
    x = _sequence()
    return largest([(few(x, is_causal=True), many(x, is_causal=True))])


def _for_every_head(rows: Tensor, d_head: int) -> Tensor:
    """The rows of each key or value head, repeated for every query head that uses it."""
    heads = rows.unflatten(0, (-1, d_head))
    return heads.repeat_interleave(HEADS // KV_HEADS, dim=0).flatten(0, 1)


def window_by_mask(*, fast: bool, window: int = 3) -> float:
    """A window, and the mask 0 ≤ t − s < window written out."""
    windowed = SelfAttention(D_MODEL, HEADS, window=window, fast=fast)
    plain = SelfAttention(D_MODEL, HEADS, fast=False)
    plain.load_state_dict(windowed.state_dict())
    positions = torch.arange(LENGTH)
    distance = positions[:, None] - positions[None, :]
    mask = (distance >= 0) & (distance < window)
    return largest_with_gradients(
        lambda x: windowed(x[0], is_causal=True), lambda x: plain(x[0], mask=mask), [_sequence()]
    )


def rotary_pairings() -> float:
    """Interleaved pairs are pairs half a head apart, with the dimensions in another order."""
    x = torch.randn(2, HEADS, LENGTH, 8, generator=torch.Generator().manual_seed(3))
    half, interleaved = (RotaryPositions(8, pairing=pairing) for pairing in ("half", "interleaved"))
    positions = torch.randint(0, 99, (2, LENGTH), generator=torch.Generator().manual_seed(4))
    reordered = x.unflatten(-1, (2, 4)).transpose(-1, -2).flatten(-2)  # 0 4 1 5 2 6 3 7
    restored = interleaved(reordered, positions).unflatten(-1, (4, 2)).transpose(-1, -2).flatten(-2)
    return largest([(half(x, positions), restored)])


def normed_queries_and_keys(*, fast: bool) -> float:
    """Norms within attention, and the same norms applied to its projections outside of it."""
    attention = SelfAttention(D_MODEL, HEADS, query_norm=RMSNorm(8), key_norm=RMSNorm(8), fast=fast)
    torch.nn.init.normal_(attention.query_norm.weight)  # type: ignore[union-attr]
    x = _sequence()
    q, k, v = (
        part.unflatten(-1, (HEADS, 8)).transpose(1, 2)
        for part in attention.projection(x).chunk(3, dim=-1)
    )
    assert attention.query_norm is not None
    assert attention.key_norm is not None
    heads, _ = attend(attention.query_norm(q), attention.key_norm(k), v, causal_mask(LENGTH))
    return largest(
        [(attention(x, is_causal=True), attention.output(heads.transpose(1, 2).flatten(2)))]
    )


def parts_checks() -> Iterator[Check]:
    """Causality, grouped queries, a window, rotary pairings, and norms of queries and keys."""
    yield Check("is_causal by the kernel = a causal mask, and gradients", causal_by_kernel)
    yield Check("rotary positions: interleaved pairs = pairs half a head apart", rotary_pairings)
    for fast in (False, True):
        path = "fast" if fast else "reference"
        yield Check(
            f"grouped-query attention ({path}) = repeated key and value heads",
            partial(grouped_queries, fast=fast),
        )
        yield Check(
            f"window ({path}) = its mask written out, and gradients",
            partial(window_by_mask, fast=fast),
        )
        yield Check(
            f"norms of queries and keys ({path}) = norms applied outside of it",
            partial(normed_queries_and_keys, fast=fast),
        )
