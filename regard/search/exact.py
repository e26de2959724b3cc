"""Exact search: the vectors with the largest dot products, found in blocks of a matrix on disk."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from regard.nn.int8 import round_rows

BLOCK_BYTES = 2**25
"""About this much of the matrix is multiplied at a time, so that memory stays flat."""

Scored = tuple[Float[Tensor, "Q K"], Int[Tensor, "Q K"]]
"""The largest scores of each query, in order, and the rows that they are of."""


def search(
    queries: Float[np.ndarray, "Q D"],
    vectors: Real[np.ndarray, "N D"],
    *,
    top: int,
    scales: Float[np.ndarray, "N"] | None = None,
) -> Scored:
    """The `top` rows of `vectors` with the largest q · v, for each query.

    scales: what the rows of 8-bit integers are multiplied by; None: they are float32.
    """
    product = _float_product if scales is None else _int8_product(queries)
    wanted = torch.from_numpy(np.ascontiguousarray(queries))
    best = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    rows = max(1, BLOCK_BYTES // (vectors.shape[1] * vectors.itemsize))
    for begin in range(0, len(vectors), rows):
        block = torch.from_numpy(vectors[begin : begin + rows])
        scores = product(wanted, block)  # Q N
        if scales is not None:
            scores *= torch.from_numpy(scales[begin : begin + rows])
        best = _merged(best, scores, begin, top)
    return best


def _merged(
    best: tuple[Float[Tensor, "Q M"], Int[Tensor, "Q M"]],
    scores: Float[Tensor, "Q N"],
    begin: int,
    top: int,
) -> Scored:
    """The largest of those so far and those of one more block."""
    values, places = scores.topk(min(top, scores.size(1)), dim=1)
    values = torch.cat([best[0], values], dim=1)
    rows = torch.cat([best[1], places + begin], dim=1)
    values, order = values.topk(min(top, values.size(1)), dim=1)
    return values, rows.gather(1, order)


def _float_product(queries: Tensor, block: Tensor) -> Tensor:
    """Q Vᵀ; one query is a product with a vector, which is faster that way round."""
    return (block @ queries[0])[None] if len(queries) == 1 else queries @ block.T


def _int8_product(queries: Float[np.ndarray, "Q D"]) -> Callable[[Tensor, Tensor], Tensor]:
    """The same in integers, times the scale of each query (`nn.int8.round_rows`)."""
    rounded, scales = round_rows(torch.from_numpy(queries))

    def product(_: Tensor, block: Tensor) -> Tensor:
        sums: Any = torch._int_mm(block, rounded.T.contiguous())  # N Q
        return sums.T * scales

    return product


def recall(found: Int[Tensor, "Q K"], exact: Int[Tensor, "Q K"]) -> float:
    """The share of the exact nearest rows that are among those found."""
    hits = (found[:, :, None] == exact[:, None, :]).any(dim=1)  # Q K
    return float(hits.float().mean())
