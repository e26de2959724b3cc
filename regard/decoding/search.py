"""The way of decoding that a configuration asks for."""

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from regard.config import Decode
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.stepper import Stepper


def search(
    stepper: Stepper,
    source: Int[Tensor, "B S"],
    decode: Decode,
    *,
    start: int,
    end: int,
    never: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each source, best first."""
    limit = decode.max_new_tokens
    if decode.strategy == "greedy":
        found = greedy(stepper, source, start=start, end=end, max_new_tokens=limit, never=never)
        return [[hypothesis] for hypothesis in found]
    return beam_search(
        stepper,
        source,
        start=start,
        end=end,
        max_new_tokens=limit,
        beam=decode.beam,
        alpha=decode.length_penalty,
        n_best=decode.n_best,
        never=never,
    )
