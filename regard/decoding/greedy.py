"""One token after another: the best each time, or one that is drawn."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import Rules
from regard.decoding.stepper import Stepper, without

Choose = Callable[[Float[Tensor, "R V"], Int[Tensor, "R"]], Int[Tensor, "R"]]
"""(log-probabilities, which sources they belong to) -> a token a row."""


def best(scores: Float[Tensor, "R V"], rows: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
    """The likeliest token."""
    return scores.argmax(dim=-1)


@torch.inference_mode()
def greedy(
    stepper: Stepper,
    source: Int[Tensor, "B S"],
    *,
    start: int,
    end: int,
    max_new_tokens: int,
    never: Sequence[int] = (),
    rules: Rules | None = None,
    choose: Choose = best,
    lengths: Int[Tensor, "B"] | None = None,
) -> list[Hypothesis]:
    """yₜ = argmax p(y | y₁ … yₜ₋₁, source), until `end`; rows that have ended leave the batch.

    never: tokens that are not written, whatever their score, such as padding.
    choose: another way to take the next token, such as sampling.
    lengths: how many tokens of each source are real; None: all.
    """
    B, device = source.size(0), source.device
    found = torch.full((B, max_new_tokens), end, device=device)  # B T
    log_probability = torch.zeros(B, device=device)
    finished = torch.zeros(B, dtype=torch.bool, device=device)
    going = torch.arange(B, device=device)  # rows of the batch that have not ended
    tokens = torch.full((B,), start, device=device)
    state = stepper.start(source) if lengths is None else stepper.start(source, lengths)
    for position in range(max_new_tokens):
        scores, state = stepper.step(tokens, state)
        log_p = without(scores, never).float().log_softmax(-1)  # R V
        allowed = log_p if rules is None else rules(log_p, found[going, :position], going)
        tokens = choose(allowed, going)
        found[going, position] = tokens
        log_probability[going] += log_p.gather(1, tokens[:, None])[:, 0]
        ended = tokens == end
        if bool(ended.any()):
            finished[going[ended]] = True
            rows = (~ended).nonzero()[:, 0]
            if rows.numel() == 0:
                break
            going, tokens, state = going[rows], tokens[rows], state.select(rows)
    return [
        Hypothesis([token for token in row if token != end], value, value, done)
        for row, value, done in zip(
            found.tolist(), log_probability.tolist(), finished.tolist(), strict=True
        )
    ]
