"""Sampling: drawn by probability, filtered as asked, the same for a row in any company."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from regard.config import Decode
from regard.decoding import search
from regard.decoding.sampling import Sampler, min_p, temperature, top_k, top_p
from tests.decoding.test_search import END, START, Table

PAIRS = {
    "temperature": (lambda scores: temperature(scores, 0.7), TemperatureLogitsWarper(0.7)),
    "top_k": (lambda scores: top_k(scores, 3), TopKLogitsWarper(3)),
    "top_k of all": (lambda scores: top_k(scores, 99), TopKLogitsWarper(99)),
    "top_p": (lambda scores: top_p(scores, 0.6), TopPLogitsWarper(0.6)),
    "min_p": (lambda scores: min_p(scores, 0.2), MinPLogitsWarper(0.2)),
}


@pytest.mark.parametrize("name", PAIRS)
@given(seed=st.integers(0, 999), vocab=st.integers(1, 12))
def test_filters_are_those_of_transformers(name: str, seed: int, vocab: int) -> None:
    scores = torch.randn(4, vocab, generator=torch.Generator().manual_seed(seed)) * 2
    ours, theirs = PAIRS[name]
    torch.testing.assert_close(ours(scores), theirs(torch.zeros(4, 1, dtype=torch.long), scores))


def test_tokens_are_drawn_by_their_probability() -> None:
    chances = torch.tensor([0.5, 0.25, 0.125, 0.125])
    rows = torch.arange(4000)
    sampler = Sampler(Decode(strategy="sample"), range(4000))
    drawn = sampler(chances.log().expand(4000, 4), rows)
    torch.testing.assert_close(drawn.bincount() / 4000, chances, atol=0.03, rtol=0)


def sampled(seeds: list[int], sources: list[int], **options) -> list[list[list[int]]]:
    found = search(
        Table(9),
        torch.tensor(sources)[:, None],
        Decode(strategy="sample", max_new_tokens=9, **options),
        start=START,
        end=END,
        padding=0,
        seeds=seeds,
    )
    return [[one.tokens for one in hypotheses] for hypotheses in found]


def test_a_row_draws_the_same_in_any_company() -> None:
    together = sampled([1, 2, 3], [7, 8, 9], n_best=2)
    alone = [sampled([seed], [source], n_best=2)[0] for seed, source in ((1, 7), (2, 8), (3, 9))]
    assert together == alone
    assert sampled([1, 2, 3], [7, 8, 9], n_best=2) == together
    assert sampled([4, 5, 6], [7, 8, 9], n_best=2) != together
    assert all(len(outputs) == 2 for outputs in together)


def test_from_one_token_alone_sampling_is_greedy() -> None:
    greedy = search(
        Table(9), torch.tensor([[7]]), Decode(max_new_tokens=9), start=START, end=END, padding=0
    )
    assert sampled([5], [7], top_k=1)[0][0] == greedy[0][0].tokens
