"""Contrastive search against the formula written out, token by token and without a cache."""

import pytest
import torch
import torch.nn.functional as F

from regard.config import Decode
from regard.decoding import collect, make_rules, search, stepper_for
from regard.models import GPT, RecurrentLanguageModel
from regard.system.errors import UserError
from regard.tasks.generating import after_prompt
from regard.verify.within import perturbed
from tests.decoding.table import Table, after_end

END, PROMPTS = 2, [[4, 5, 6, 7, 3], [8, 9], [11], []]


def models() -> dict[str, GPT | RecurrentLanguageModel]:
    torch.manual_seed(3)
    sizes = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 32, "max_length": 32}
    return {
        "GPT (learned)": perturbed(GPT(12, **sizes)),
        "GPT (rotary)": perturbed(GPT(12, positions="rotary", **sizes)),
        "LSTM": perturbed(RecurrentLanguageModel(12, kind="lstm", d_model=16, n_layers=2)),
    }


MODELS = models()


def hidden_states(model: GPT | RecurrentLanguageModel, tokens: list[int]) -> torch.Tensor:
    """After each token, by one pass over all of them."""
    whole = torch.tensor([tokens])
    if isinstance(model, GPT):
        return model.decoder(model.embedding(whole), is_causal=True)[0]
    return model.read(whole, model.start(whole[:, :0]))[0][0]


@torch.inference_mode()
def plain(model, prompt: list[int], *, k: int, alpha: float, length: int) -> list[int]:
    text, output = [END, *prompt], []
    for _ in range(length):
        before = hidden_states(model, text)
        p = model.output(before[-1]).index_fill(0, torch.tensor([0]), -torch.inf).softmax(-1)
        scores = {}
        for token in p.topk(k).indices.tolist():
            after = hidden_states(model, [*text, token])[-1]
            nearest = max(F.cosine_similarity(after, one, dim=0).item() for one in before)
            scores[token] = (1 - alpha) * p[token].item() - alpha * nearest
        token = max(scores, key=lambda one: scores[one])
        if token == END:
            break
        text.append(token)
        output.append(token)
    return output


@torch.inference_mode()
def searched(model, prompts: list[list[int]], **keys) -> list[list[int]]:
    decode = Decode(strategy="contrastive", max_new_tokens=10, **keys)
    stepper = stepper_for(model, decode)
    state, first = after_prompt(stepper, torch.device("cpu"), begun=after_end, padding=0)(prompts)
    rules = make_rules(decode, end=END, prompts=prompts)
    steps = search(stepper, state, first, decode, end=END, never=(0,), rules=rules)
    return [one.tokens for (one,) in collect(steps)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("alpha", "k"), [(0.6, 4), (0.3, 2), (1.0, 5)])
def test_contrastive_search_is_its_formula(name: str, alpha: float, k: int) -> None:
    model = MODELS[name]
    expected = [plain(model, prompt, k=k, alpha=alpha, length=10) for prompt in PROMPTS]
    assert searched(model, PROMPTS, contrast=alpha, candidates=k) == expected


@pytest.mark.parametrize("name", MODELS)
def test_without_contrast_it_is_greedy(name: str) -> None:
    model, decode = MODELS[name], Decode(max_new_tokens=10)
    with torch.inference_mode():
        state, first = after_prompt(model, torch.device("cpu"), begun=after_end, padding=0)(PROMPTS)
        greedy = [
            one.tokens
            for (one,) in collect(search(model, state, first, decode, end=END, never=(0,)))
        ]
    assert searched(model, PROMPTS, contrast=0.0) == greedy
    assert searched(model, PROMPTS, candidates=1) == greedy


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_is_its_rows_and_rules_are_kept(name: str) -> None:
    model = MODELS[name]
    together = searched(model, PROMPTS, no_repeat_ngram=1)
    assert together == [searched(model, [prompt], no_repeat_ngram=1)[0] for prompt in PROMPTS]
    for prompt, output in zip(PROMPTS, together, strict=True):
        assert len({*prompt, *output}) == len(prompt) + len(output)


def test_a_model_without_hidden_states_is_refused() -> None:
    with pytest.raises(UserError, match="compares the hidden states of a language model"):
        stepper_for(Table(5), Decode(strategy="contrastive"))
