"""Numbers among token ids: a float32 as two ids of 16 bits, exactly."""

import numpy as np

from regard.data.examples import Ids

BITS = 16


def ids_of(number: float) -> Ids:
    """The upper and the lower half of its bits."""
    bits = int(np.float32(number).view(np.uint32))
    return [bits >> BITS, bits & (2**BITS - 1)]


def number_in(ids: Ids) -> float:
    """The number that `ids_of` took apart, rounded to float32."""
    upper, lower = ids
    return float(np.uint32((upper << BITS) | lower).view(np.float32))
