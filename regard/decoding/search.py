"""The search that a configuration names, as a stream of steps."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from jaxtyping import Int
from torch import Tensor

from regard.config import Decode
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.rules import make_rules
from regard.decoding.sampling import Sampler
from regard.decoding.step import Step
from regard.decoding.stepper import Stepper
from regard.system.numbers import refuse_nan

Strategy = Callable[..., Iterator[Step]]
"""(stepper, state, first, end=, max_new_tokens=, never=, rules=) -> steps."""


def _greedy(decode: Decode, seeds: Sequence[int]) -> Strategy:
    return greedy


def _beam(decode: Decode, seeds: Sequence[int]) -> Strategy:
    return partial(beam_search, beam=decode.beam, alpha=decode.length_penalty, n_best=decode.n_best)


def _sample(decode: Decode, seeds: Sequence[int]) -> Strategy:
    samples = decode.n_best
    own = [samples * seed + number for seed in seeds for number in range(samples)]
    return partial(greedy, choose=Sampler(decode, own), samples=samples)


STRATEGIES: dict[str, Callable[[Decode, Sequence[int]], Strategy]] = {
    "greedy": _greedy,
    "beam": _beam,
    "sample": _sample,
}
"""Every strategy by its name: how it is made from a configuration and a seed per source."""


def search(
    stepper: Stepper,
    state: Any,
    first: Int[Tensor, "B"],
    decode: Decode,
    *,
    end: int,
    never: Sequence[int] = (),
    lengths: Int[Tensor, "B"] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
) -> Iterator[Step]:
    """The steps of the search that `decode` describes, made as they are read.

    It begins from a state and the first token of each row, which is not part of the output: of an
    encoder-decoder, the state after the source and `<s>`; of a language model, the state after the
    prompt without its last token, and that token.

    end: the token that ends an output. never: tokens that are not generated, such as padding.
    lengths: of the sources, for length ratios. prefixes: what each output begins with.
    seeds: for sampling, one per source.
    A model that gives NaN is refused at its first step.
    """
    strategy = STRATEGIES[decode.strategy](decode, range(len(first)) if seeds is None else seeds)
    steps = strategy(
        stepper,
        state,
        first,
        end=end,
        max_new_tokens=decode.max_new_tokens,
        never=never,
        rules=make_rules(decode, lengths, end=end, prefixes=prefixes),
    )
    return _of_numbers(steps)


def _of_numbers(steps: Iterator[Step]) -> Iterator[Step]:
    """The same steps, as long as their log-probabilities are numbers.

    Any search considers NaN first: argmax and topk take it for the largest of all.
    """
    for step in steps:
        refuse_nan(step.log_probabilities)
        yield step
        del step  # R × V numbers, whose memory the next step uses again
