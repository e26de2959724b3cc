"""Greedy decoding: the best next token, again and again."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.stepper import Stepper, without


@torch.inference_mode()
def greedy(
    stepper: Stepper,
    source: Int[Tensor, "B S"],
    *,
    start: int,
    end: int,
    max_new_tokens: int,
    never: Sequence[int] = (),
) -> list[Hypothesis]:
    """yₜ = argmax p(y | y₁ … yₜ₋₁, source), until `end`; rows that have ended leave the batch.

    never: tokens that are not written, whatever their score, such as padding.
    """
    B, device = source.size(0), source.device
    found = torch.full((B, max_new_tokens), end, device=device)  # B T
    log_probability = torch.zeros(B, device=device)
    finished = torch.zeros(B, dtype=torch.bool, device=device)
    going = torch.arange(B, device=device)  # rows of the batch that have not ended
    tokens = torch.full((B,), start, device=device)
    state = stepper.start(source)
    for position in range(max_new_tokens):
        scores, state = stepper.step(tokens, state)
        best, tokens = without(scores, never).float().log_softmax(-1).max(-1)
        found[going, position] = tokens
        log_probability[going] += best
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
