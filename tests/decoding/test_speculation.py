"""Speculation: the same tokens as without it, in fewer steps of the model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Decode
from regard.decoding import Speculative, collect, search, stepper_for
from regard.decoding.speculation import lookup
from regard.models import GPT, RecurrentLanguageModel
from regard.system.errors import UserError
from regard.tasks.generating import after_prompt
from regard.verify.within import perturbed
from tests.decoding.table import after_end

END = 2
PROMPTS = [[4, 5, 6, 4, 5], [8, 9], [], [11, 3, 3, 3, 3, 3, 7]]


def gpt(seed: int, **options) -> GPT:
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 32, "max_length": 64}
    return perturbed(GPT(12, **sizes | options))


MODEL = gpt(1)
MODELS = {
    "learned": MODEL,
    "rotary, window": gpt(2, positions="rotary", window=5, n_kv_heads=1),
    "a context that is filled": gpt(1, max_length=9),
}
DRAFTS = {
    "lookup": None,
    "itself": MODEL,
    "another": gpt(7, n_layers=1),
}


class Counting(Speculative):
    reads = 0

    def _read(self, *arguments) -> None:
        self.reads += 1
        super()._read(*arguments)


@torch.inference_mode()
def outputs(stepper, prompts: list[list[int]], *, seeds=None, **keys):
    decode = Decode(max_new_tokens=14, **keys)
    state, first = after_prompt(stepper, torch.device("cpu"), begun=after_end, padding=0)(prompts)
    steps = search(stepper, state, first, decode, end=END, never=(0,), seeds=seeds)
    return collect(steps, n_best=decode.n_best)


CASES = [
    ("learned", "lookup", 4),
    ("learned", "itself", 3),
    ("learned", "another", 1),
    ("rotary, window", "lookup", 3),
    ("rotary, window", "another", 4),
    ("a context that is filled", "lookup", 3),
    ("a context that is filled", "another", 4),
]


@pytest.mark.parametrize(("model", "draft", "count"), CASES)
@pytest.mark.parametrize(
    "keys", [{}, {"strategy": "sample", "n_best": 2, "top_p": 0.95}], ids=["greedy", "sample"]
)
def test_outputs_stay_the_same(model: str, draft: str, count: int, keys) -> None:
    plain, speculative = MODELS[model], Speculative(MODELS[model], count, DRAFTS[draft])
    expected, result = outputs(plain, PROMPTS, **keys), outputs(speculative, PROMPTS, **keys)
    for some, others in zip(expected, result, strict=True):
        assert [one.tokens for one in some] == [one.tokens for one in others]
        for one, other in zip(some, others, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    for number, others in enumerate(result):
        (alone,) = outputs(speculative, PROMPTS[number : number + 1], seeds=[number], **keys)
        assert [one.tokens for one in alone] == [one.tokens for one in others]


def test_what_was_guessed_right_is_not_read_again() -> None:
    stepper = Counting(MODEL, 4, MODEL)  # its own guesses are always right
    (best,) = outputs(stepper, [[4, 5]])[0]
    tokens = len(best.tokens) + best.finished
    assert stepper.reads == -(-tokens // 5)  # one token and four guesses at a time


def test_sampled_tokens_have_the_probabilities_of_the_model() -> None:
    """By chi-square: the second token, which is sometimes guessed, over many seeds."""
    count, prompt = 6_000, [4, 5, 6, 4, 5]
    keys = {"strategy": "sample", "temperature": 1.5}
    observed: dict[int, torch.Tensor] = {}
    with torch.inference_mode():
        decode = Decode(max_new_tokens=2, **keys)
        stepper = Speculative(MODEL, 3)
        begin = after_prompt(stepper, torch.device("cpu"), begun=after_end, padding=0)
        state, first = begin([prompt] * count)
        hypotheses = collect(search(stepper, state, first, decode, end=END, never=(0,)))
    for (one,) in hypotheses:
        row = [*one.tokens, END][:2]
        observed.setdefault(row[0], torch.zeros(12))[row[-1] if len(row) > 1 else END] += 1
    commonest = max(observed, key=lambda token: observed[token].sum())
    assert commonest != END
    assert observed[commonest].sum() > 500
    with torch.inference_mode():
        logits = MODEL(torch.tensor([[END, *prompt, commonest]]))[0, -1]
    logits = logits.index_fill(0, torch.tensor([0]), -torch.inf)
    expected = (logits / 1.5).softmax(-1) * observed[commonest].sum()
    common = expected > 5
    chi_square = ((observed[commonest] - expected)[common].square() / expected[common]).sum()
    assert chi_square < 31.26  # once in a thousand times, with 11 degrees of freedom


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 5))
def test_lookup_is_what_followed_the_longest_ngram_last(text: list[int], count: int) -> None:
    guess = lookup(text, count)
    for n in (3, 2, 1):
        places = [
            place
            for place in range(len(text) - n)
            if n < len(text) and text[place : place + n] == text[-n:]
        ]
        if places:
            assert guess == text[places[-1] + n :][:count]
            return
    assert guess == []


def test_a_model_that_cannot_go_back_is_refused() -> None:
    recurrent = RecurrentLanguageModel(12, d_model=8)
    with pytest.raises(UserError, match="speculate=3 needs a model that can go back"):
        stepper_for(recurrent, Decode(speculate=3))
    with pytest.raises(UserError, match="a GPT"):
        stepper_for(MODEL, Decode(speculate=3), recurrent)
    with pytest.raises(UserError, match="looks back at 9 tokens at most, fewer than the 64"):
        stepper_for(MODEL, Decode(speculate=3), MODELS["a context that is filled"])
    assert stepper_for(MODEL, Decode()) is MODEL
