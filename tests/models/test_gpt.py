"""GPT: past its context, a row goes on after the last half of what it has read."""

from typing import Any

import pytest
import torch

from regard.decoding import collect, greedy
from regard.models import GPT
from regard.verify.within import perturbed

CONTEXT = 8
PROMPTS = [[4, 0, 5, 6, 7, 3, 2], [8, 9], [11]]


def small(**options: Any) -> GPT:
    sizes = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 32, "max_length": CONTEXT}
    return perturbed(GPT(12, **sizes | options))


def kept(tokens: list[int]) -> list[int]:
    """What a row that has read these tokens one by one still looks at: written out."""
    window: list[int] = []
    for token in tokens:
        if len(window) == CONTEXT:
            window = window[-(CONTEXT // 2) :]
        window.append(token)
    return window


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@torch.inference_mode()
def test_past_its_context_a_row_goes_on_after_the_last_half_of_it(positions: str) -> None:
    model, tokens = small(positions=positions), torch.randint(12, (3, 3 * CONTEXT))
    state = model.start(tokens[:, :0])
    for place in range(tokens.size(1)):
        logits, state = model.step(tokens[:, place], state)
        for row in range(3):
            window = kept(tokens[row, : place + 1].tolist())
            alone = model(torch.tensor([window]))[0, -1]
            torch.testing.assert_close(logits[row], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@torch.inference_mode()
def test_prompts_of_any_lengths_generate_past_the_context_as_each_alone(positions: str) -> None:
    model = small(positions=positions)

    def generate(prompts: list[list[int]]) -> list[list[int]]:
        longest = max(map(len, prompts))
        padded = torch.tensor([[*row[:-1], *[1] * (longest - len(row))] for row in prompts])
        lengths = torch.tensor([len(row) - 1 for row in prompts])
        first = torch.tensor([row[-1] for row in prompts])
        state = model.start(padded.long(), lengths)
        steps = greedy(model, state, first, end=-1, max_new_tokens=3 * CONTEXT)
        return [list(best.tokens) for best, *_ in collect(steps)]

    assert generate(PROMPTS) == [generate([prompt])[0] for prompt in PROMPTS]
