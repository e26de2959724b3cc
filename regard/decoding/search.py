"""The search that a configuration names, as a stream of steps."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from jaxtyping import Int
from torch import Tensor

from regard.config import Decode
from regard.decoding.beam import beam_search
from regard.decoding.contrastive import Remembering, contrastive_search
from regard.decoding.diverse import DiverseGroups, SampledExtensions
from regard.decoding.greedy import greedy
from regard.decoding.rules import Rules
from regard.decoding.sampling import Sampler
from regard.decoding.speculation import Speculative
from regard.decoding.step import Step
from regard.decoding.stepper import Reader, Stepper
from regard.system.errors import UserError
from regard.system.numbers import refuse_nan

Strategy = Callable[..., Iterator[Step]]
"""(stepper, state, first, end=, max_new_tokens=, never=, rules=) -> steps."""
Make = Callable[[Decode, Sequence[int], int], Strategy]
"""(configuration, a seed per source, the token that ends an output) -> strategy."""


def _greedy(decode: Decode, seeds: Sequence[int], end: int) -> Strategy:
    return greedy


def _samples(decode: Decode, seeds: Sequence[int], end: int) -> Strategy:
    samples = samples_of(decode)
    own = [samples * seed + number for seed in seeds for number in range(samples)]
    return partial(greedy, choose=Sampler(decode, own), samples=samples)


def samples_of(decode: Decode) -> int:
    """How many outputs of each source are sampled."""
    return decode.best_of if decode.strategy == "best-of" else decode.n_best


def _beam(decode: Decode, seeds: Sequence[int], end: int) -> Strategy:
    return partial(
        beam_search,
        beam=decode.beam,
        alpha=decode.length_penalty,
        n_best=decode.n_best,
        early_stopping=decode.early_stopping,
    )


def _diverse_beam(decode: Decode, seeds: Sequence[int], end: int) -> Strategy:
    groups = decode.beam_groups
    extend = DiverseGroups(groups, diversity=decode.diversity, end=end)
    return partial(_beam(decode, seeds, end), groups=groups, extend=extend)


def _beam_sample(decode: Decode, seeds: Sequence[int], end: int) -> Strategy:
    return partial(_beam(decode, seeds, end), extend=SampledExtensions(decode, seeds))


def _contrastive(decode: Decode, seeds: Sequence[int], end: int) -> Strategy:
    return partial(contrastive_search, candidates=decode.candidates, alpha=decode.contrast)


STRATEGIES: dict[str, Make] = {
    "greedy": _greedy,
    "sample": _samples,
    "best-of": _samples,
    "beam": _beam,
    "diverse-beam": _diverse_beam,
    "beam-sample": _beam_sample,
    "contrastive": _contrastive,
}
"""Every strategy by its name: how it is made from a configuration."""


def stepper_for(model: Stepper, decode: Decode, draft: Stepper | None = None) -> Stepper:
    """The model as a strategy needs it; UserError if it cannot be used so.

    Contrastive search needs hidden states, and speculation a model that reads several tokens at
    once and can go back. draft: a model that makes the guesses of speculation.
    """
    if decode.strategy == "contrastive":
        if not isinstance(model, Reader):
            raise UserError(
                "strategy=contrastive compares the hidden states of a language model, and this "
                "model does not show any."
            )
        return Remembering(model)
    if not decode.speculate:
        return model
    reader = _going_back(model, decode)
    guesser = None if draft is None else _going_back(draft, decode)
    if guesser is not None and guesser.max_length < reader.max_length:
        raise UserError(
            f"the draft model looks back at {guesser.max_length} tokens at most, fewer than the "
            f"{reader.max_length} of the model that it guesses for."
        )
    return Speculative(reader, decode.speculate, guesser)


def _going_back(model: Stepper, decode: Decode) -> Reader:
    """The model, if it can read several tokens at once and take some of them back."""
    if isinstance(model, Reader) and model.can_go_back:
        return model
    raise UserError(
        f"speculate={decode.speculate} needs a model that can go back to an earlier token: a GPT."
    )


def search(
    stepper: Stepper,
    state: Any,
    first: Int[Tensor, "B"],
    decode: Decode,
    *,
    end: int,
    never: Sequence[int] = (),
    rules: Rules | None = None,
    seeds: Sequence[int] | None = None,
) -> Iterator[Step]:
    """The steps of the search that `decode` describes, made as they are read.

    It begins from a state and the first token of each row, which is not part of the output: of an
    encoder-decoder, the state after the source and `<s>`; of a language model, the state after the
    prompt without its last token, and that token.

    stepper: what `stepper_for` makes of a model. end: the token that ends an output. never: tokens
    that are not generated, such as padding. rules: what `make_rules` makes of the same `decode`.
    seeds: for sampling, one per source.
    A model that gives NaN is refused at its first step.
    """
    seeds = range(len(first)) if seeds is None else seeds
    strategy = STRATEGIES[decode.strategy](decode, seeds, end)
    steps = strategy(
        stepper,
        state,
        first,
        end=end,
        max_new_tokens=decode.max_new_tokens,
        never=never,
        rules=rules,
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
