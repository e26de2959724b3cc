"""Sampling: by probability, filtered, and the same for a row in any batch."""

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
from regard.decoding import collect, search
from regard.decoding.filters import min_p, temperature, top_k, top_p
from regard.decoding.sampling import Sampler
from tests.decoding.table import END, START, Table

PAIRS = {
    "temperature": (lambda logits: temperature(logits, 0.7), TemperatureLogitsWarper(0.7)),
    "top_k": (lambda logits: top_k(logits, 3), TopKLogitsWarper(3)),
    "top_k of all": (lambda logits: top_k(logits, 99), TopKLogitsWarper(99)),
    "top_p": (lambda logits: top_p(logits, 0.6), TopPLogitsWarper(0.6)),
    "min_p": (lambda logits: min_p(logits, 0.2), MinPLogitsWarper(0.2)),
}


@pytest.mark.parametrize("name", PAIRS)
@given(seed=st.integers(0, 999), vocab=st.integers(1, 12))
def test_filters_are_those_of_transformers(name: str, seed: int, vocab: int) -> None:
    logits = torch.randn(4, vocab, generator=torch.Generator().manual_seed(seed)) * 2
    ours, theirs = PAIRS[name]
    torch.testing.assert_close(ours(logits), theirs(torch.zeros(4, 1, dtype=torch.long), logits))


def test_tokens_are_sampled_by_their_probability() -> None:
    probabilities = torch.tensor([0.5, 0.25, 0.125, 0.125])
    rows = torch.arange(4000)
    sampler = Sampler(Decode(strategy="sample"), range(4000))
    sampled_tokens = sampler(probabilities.log().expand(4000, 4), rows)
    torch.testing.assert_close(sampled_tokens.bincount() / 4000, probabilities, atol=0.03, rtol=0)


def outputs(seeds: list[int], sources: list[int], decode: Decode) -> list[list[list[int]]]:
    table, first = Table(9), torch.full((len(sources),), START)
    state = table.start(torch.tensor(sources)[:, None])
    steps = search(table, state, first, decode, end=END, seeds=seeds)
    return [
        [one.tokens for one in hypotheses] for hypotheses in collect(steps, n_best=decode.n_best)
    ]


def sampled(seeds: list[int], sources: list[int], **options) -> list[list[list[int]]]:
    return outputs(seeds, sources, Decode(strategy="sample", max_new_tokens=9, **options))


def test_a_row_samples_the_same_in_any_batch() -> None:
    together = sampled([1, 2, 3], [7, 8, 9], n_best=2)
    alone = [sampled([seed], [source], n_best=2)[0] for seed, source in ((1, 7), (2, 8), (3, 9))]
    assert together == alone
    assert sampled([1, 2, 3], [7, 8, 9], n_best=2) == together
    assert sampled([4, 5, 6], [7, 8, 9], n_best=2) != together
    assert all(len(of_source) == 2 for of_source in together)


def test_from_one_token_alone_sampling_is_greedy() -> None:
    greedy = outputs([5], [7], Decode(max_new_tokens=9))
    assert sampled([5], [7], top_k=1) == greedy
