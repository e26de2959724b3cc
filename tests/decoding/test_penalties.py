"""Penalties and n-grams over prompt and output: equal to transformers', and written out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from regard.config import Decode
from regard.decoding import make_rules

TEXTS = st.lists(
    st.tuples(st.lists(st.integers(0, 6), max_size=6), st.lists(st.integers(0, 6), min_size=3)),
    min_size=1,
    max_size=3,
)
END = 7


def ruled(logits: torch.Tensor, prompts: list[list[int]], outputs: list[list[int]], **keys):
    rules = make_rules(Decode(**keys), end=END, prompts=prompts)
    return rules(logits, torch.tensor(outputs), torch.arange(len(prompts)))


@given(texts=TEXTS, penalty=st.sampled_from([0.5, 1.2, 3.0]))
def test_the_repetition_penalty_is_that_of_transformers(texts, penalty: float) -> None:
    prompts, outputs = [prompt for prompt, _ in texts], [output[:3] for _, output in texts]
    logits = torch.randn(len(texts), 8)
    result = ruled(logits, prompts, outputs, repetition_penalty=penalty)
    for row, text in enumerate(zip(prompts, outputs, strict=True)):
        ids = torch.tensor([[*text[0], *text[1]]])
        theirs = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits[row : row + 1].clone())
        torch.testing.assert_close(result[row], theirs[0])


@given(texts=TEXTS, n=st.integers(1, 4))
def test_ngrams_of_prompt_and_output_are_those_of_transformers(texts, n: int) -> None:
    prompts, outputs = [prompt for prompt, _ in texts], [output[:3] for _, output in texts]
    logits = torch.randn(len(texts), 8)
    result = ruled(logits, prompts, outputs, no_repeat_ngram=n)
    for row, text in enumerate(zip(prompts, outputs, strict=True)):
        ids = torch.tensor([[*text[0], *text[1]]])
        theirs = NoRepeatNGramLogitsProcessor(n)(ids, logits[row : row + 1].clone())
        torch.testing.assert_close(result[row], theirs[0])


def test_the_presence_penalty_is_subtracted_once_from_all_that_was_seen() -> None:
    logits = torch.arange(8.0)[None]
    result = ruled(logits, [[1, 1, 2]], [[5, 1]], presence_penalty=1.5)
    assert (logits - result).tolist() == [[0, 1.5, 1.5, 0, 0, 1.5, 0, 0]]


def test_without_a_prompt_only_the_output_counts() -> None:
    rules = make_rules(Decode(presence_penalty=1.0), end=END)
    result = rules(torch.zeros(1, 8), torch.tensor([[3]]), torch.tensor([0]))
    assert result.tolist() == [[0, 0, 0, -1, 0, 0, 0, 0]]


@pytest.mark.parametrize("prompts", [[[]], [[], []]])
def test_prompts_may_be_empty(prompts: list[list[int]]) -> None:
    generated = torch.empty(len(prompts), 0, dtype=torch.long)
    rules = make_rules(Decode(repetition_penalty=2.0), end=END, prompts=prompts)
    logits = torch.randn(len(prompts), 8)
    assert rules(logits, generated, torch.arange(len(prompts))).equal(logits)
