"""The recurrent language model: prompts of different lengths in one batch, and none at all."""

import pytest
import torch

from regard.data.batches import pad
from regard.decoding import beam_search, collect, greedy
from regard.models import RecurrentLanguageModel
from regard.nn.cells import CellKind

PROMPTS = [[4, 5, 6, 7, 8], [9], [0, 4], [5, 0, 0]]
"""0 is a token like any other: the model is given lengths."""


def model(kind: CellKind, *, fast: bool = True) -> RecurrentLanguageModel:
    torch.manual_seed(0)
    made = RecurrentLanguageModel(12, kind=kind, d_model=16, n_layers=2, fast=fast).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


@torch.inference_mode()
def generated(made: RecurrentLanguageModel, prompts: list[list[int]], strategy) -> list:
    read = [prompt[:-1] for prompt in prompts]
    state = made.start(pad(read), torch.tensor([len(row) for row in read]))
    first = torch.tensor([prompt[-1] for prompt in prompts])
    return collect(strategy(made, state, first, end=2, max_new_tokens=8))


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("strategy", [greedy, beam_search])
def test_prompts_of_different_lengths_generate_as_each_does_alone(kind, strategy) -> None:
    for fast in (True, False):
        made = model(kind, fast=fast)
        together = generated(made, PROMPTS, strategy)
        alone = [generated(made, [prompt], strategy)[0] for prompt in PROMPTS]
        for (one,), (other,) in zip(together, alone, strict=True):
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@torch.inference_mode()
def test_the_state_after_a_prompt_and_its_last_token_is_that_of_reading_it_whole(kind) -> None:
    made = model(kind)
    for prompt in PROMPTS:
        state = made.start(torch.tensor([prompt[:-1]], dtype=torch.long))
        logits, _ = made.step(torch.tensor(prompt[-1:]), state)
        whole, _ = made(torch.tensor([prompt]))
        torch.testing.assert_close(logits, whole[:, -1])


@torch.inference_mode()
def test_padding_changes_nothing_whatever_its_id_is() -> None:
    made, lengths = model("gru"), torch.tensor([3, 1])
    tokens = torch.tensor([[0, 5, 6], [7, 0, 0]])
    logits, state = made(tokens, lengths=lengths)
    tokens[1, 1:] = 9
    others, other_state = made(tokens, lengths=lengths)
    torch.testing.assert_close(logits[0], others[0])
    torch.testing.assert_close(logits[1, :1], others[1, :1])
    torch.testing.assert_close(state, other_state)
