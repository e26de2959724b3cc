"""Rules on what may be generated: kept by every strategy, and forbidding nothing more."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Decode
from regard.decoding import Rules, collect, make_rules, search
from regard.decoding.rules import repeating
from tests.decoding.table import END, START, Table, by_beam, greedily

STRATEGIES = ["greedy", "beam", "sample"]


def generated(strategy: str, seeds: list[int], *, prefixes=None, **options) -> list[list[int]]:
    decode = Decode(strategy=strategy, beam=3, max_new_tokens=12, **options)
    table, source = Table(7), torch.tensor([[seed, 1, 1] for seed in seeds])
    lengths = torch.full((len(seeds),), 3)
    steps = search(
        table,
        table.start(source),
        torch.full((len(seeds),), START),
        decode,
        end=END,
        rules=make_rules(decode, end=END, lengths=lengths, prefixes=prefixes),
    )
    return [one.tokens for hypotheses in collect(steps) for one in hypotheses]


def ngrams(tokens: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seeds=st.lists(st.integers(5, 9_999), min_size=1, max_size=4), n=st.integers(1, 3))
def test_no_ngram_is_generated_twice(strategy: str, seeds, n: int) -> None:
    for tokens in generated(strategy, seeds, no_repeat_ngram=n):
        occurring = ngrams(tokens, n)
        assert len(occurring) == len(set(occurring))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seeds=st.lists(st.integers(5, 9_999), min_size=1, max_size=4))
def test_lengths_are_kept_to(strategy: str, seeds) -> None:
    for tokens in generated(strategy, seeds, min_length_ratio=1, max_length_ratio=2):
        assert 3 <= len(tokens) <= 6  # the sources have three tokens
    for tokens in generated(strategy, seeds, max_length_ratio=0.1):
        assert len(tokens) <= 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_output_begins_as_it_must(strategy: str) -> None:
    prefixes = [[6, 6, 5], [], [4]]
    outputs = generated(strategy, [7, 8, 9], prefixes=prefixes)
    for tokens, prefix in zip(outputs, prefixes, strict=True):
        assert tokens[: len(prefix)] == prefix
    assert outputs[1] == generated(strategy, [7, 8, 9])[1]
    short = generated(strategy, [7, 8, 9], prefixes=prefixes, max_length_ratio=0.1)
    assert [short[0], short[2]] == [[6, 6, 5], [4]]  # whole, though there was room for one token
    assert len(short[1]) <= 1


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=4),
    st.integers(1, 8),
)
def test_repeating_tokens_are_those_that_a_loop_finds(rows, n: int) -> None:
    result = repeating(torch.tensor(rows), n, 5)
    for row, token in itertools.product(range(len(rows)), range(5)):
        before = ngrams(rows[row], n)
        after = ngrams([*rows[row], token], n)
        assert result[row, token] == (bool(after) and after[-1] in before)


@given(seed=st.integers(5, 9_999), limit=st.integers(1, 3))
def test_a_beam_under_rules_is_exhaustive_search_under_them(seed: int, limit: int) -> None:
    """Every allowed sequence of a table that can be listed; probabilities are those of no rules."""
    table, shortest = Table(4), 1
    best: list[tuple[float, list[int]]] = []
    for length in range(shortest, limit + 1):
        for tokens in itertools.product([0, 1, 3], repeat=length):
            if len(set(ngrams(list(tokens), 2))) < len(ngrams(list(tokens), 2)):
                continue
            total = sum(
                table.logits(seed, (START, *tokens[:i])).log_softmax(-1)[token].item()
                for i, token in enumerate([*tokens, END])
            )
            best.append((total, list(tokens)))
    rules = Rules(
        END, shortest=torch.tensor([shortest]), longest=torch.tensor([limit]), no_repeat_ngram=2
    )
    hypotheses = by_beam(
        table,
        torch.tensor([[seed]]),
        max_new_tokens=9,
        beam=4**limit,
        alpha=0.0,
        n_best=1,
        rules=rules,
    )[0][0]
    score, tokens = max(best)
    assert hypotheses.tokens == tokens
    assert hypotheses.score == pytest.approx(score, abs=1e-4)


def test_where_nothing_is_left_the_output_ends() -> None:
    rules = Rules(END, shortest=torch.tensor([50]), no_repeat_ngram=1)
    options = {"max_new_tokens": 40, "never": [0], "rules": rules}
    hypothesis = greedily(Table(4), torch.tensor([[5]]), **options)[0]
    assert sorted(hypothesis.tokens) == [1, 3]
    assert hypothesis.finished
    assert hypothesis.score > -torch.inf
    assert by_beam(Table(4), torch.tensor([[5]]), **options)[0][0].finished
