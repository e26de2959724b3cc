"""One token after another: the most probable one each time, or a sampled one."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.rules import Rules
from regard.decoding.step import Step
from regard.decoding.stepper import Stepper, exclude, repeated

Choose = Callable[[Float[Tensor, "R V"], Int[Tensor, "R"]], Int[Tensor, "R"]]
"""(logits, the number of each row) -> one token per row."""


def best(logits: Float[Tensor, "R V"], rows: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
    """The most probable token."""
    return logits.argmax(dim=-1)


@torch.inference_mode()
def greedy(
    stepper: Stepper,
    state: Any,
    first: Int[Tensor, "B"],
    *,
    end: int,
    max_new_tokens: int,
    never: Sequence[int] = (),
    rules: Rules | None = None,
    choose: Choose = best,
    samples: int = 1,
) -> Iterator[Step]:
    """yₜ = argmax p(y | y₁ … yₜ₋₁, source), until `end`; rows that have ended leave the batch.

    state and first: what the model has read so far, and the first token of each row to read next.
    never: tokens that are not generated, however probable, such as padding.
    rules: what else may not be generated; log-probabilities are those of the model, without rules.
    choose: another way to take the next token, such as sampling. samples: rows per source.
    """
    tokens, state, sources = repeated(first, state, samples)
    origins = everyone = numbers = torch.arange(len(tokens), device=first.device)
    nothing, total = numbers[:0], torch.zeros(len(tokens), device=first.device)
    generated = tokens[:, None][:, :0]  # R T, for the rules alone
    for length in range(1, max_new_tokens + 1):
        logits, state = stepper.step(tokens, state)
        logits = exclude(logits, never)  # R V
        log_p = logits.log_softmax(-1)
        allowed = logits if rules is None else rules(logits, generated, sources)
        tokens = choose(allowed, numbers)
        total = total + log_p.gather(1, tokens[:, None])[:, 0]
        ended = tokens == end
        kept, finished = everyone, nothing
        if bool(ended.any()):
            kept, finished = (~ended).nonzero()[:, 0], ended.nonzero()[:, 0]
        step = Step(
            length=length,
            end=end,
            sources=sources,
            origins=origins,
            next_log_probabilities=log_p,
            rows=everyone,
            tokens=tokens,
            log_probabilities=total,
            kept=kept,
            finished=finished,
        )
        yield step
        origins = step.kept  # fewer than were kept, where a reader has ended some
        if length == max_new_tokens or not len(origins):
            return
        del step, logits, log_p, allowed  # R × V each: their memory is used again
        if rules is not None:
            generated = torch.cat([generated, tokens[:, None]], dim=1)[origins]
        if len(origins) < len(tokens):
            tokens, total, state = tokens[origins], total[origins], state.select(origins)
            numbers, sources = numbers[origins], sources[origins]
            everyone = everyone[: len(origins)]
