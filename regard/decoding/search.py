"""The way of decoding that a configuration asks for."""

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from regard.config import Decode
from regard.decoding.beam import beam_search
from regard.decoding.greedy import Choose, best, greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import make_rules
from regard.decoding.sampling import Sampler
from regard.decoding.stepper import Stepper


def search(
    stepper: Stepper,
    source: Int[Tensor, "B S"],
    decode: Decode,
    *,
    start: int,
    end: int,
    padding: int | None = None,
    lengths: Int[Tensor, "B"] | None = None,
    never: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each source, best first.

    prefixes: what each output begins with. seeds: of what is drawn for each source, if anything is.
    """
    times = decode.n_best if decode.strategy == "sample" else 1
    if times > 1:
        source = source.repeat_interleave(times, dim=0)
        prefixes = None if prefixes is None else [one for one in prefixes for _ in range(times)]
    if lengths is None:
        lengths = ((source != padding) & (source != end)).sum(dim=1)
    else:
        lengths = lengths.repeat_interleave(times)
    rules = make_rules(decode, lengths, end=end, prefixes=prefixes)
    if decode.strategy == "beam":
        return beam_search(
            stepper,
            source,
            start=start,
            end=end,
            max_new_tokens=decode.max_new_tokens,
            beam=decode.beam,
            alpha=decode.length_penalty,
            n_best=decode.n_best,
            never=never,
            rules=rules,
        )
    choose: Choose = best
    if decode.strategy == "sample":
        of_sources = range(len(source) // times) if seeds is None else seeds
        choose = Sampler(decode, [times * seed + n for seed in of_sources for n in range(times)])
    found = greedy(
        stepper,
        source,
        start=start,
        end=end,
        max_new_tokens=decode.max_new_tokens,
        never=never,
        rules=rules,
        choose=choose,
    )
    return [
        sorted(found[first : first + times], key=lambda one: -one.score)
        for first in range(0, len(found), times)
    ]
