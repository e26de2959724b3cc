"""Constraints: whatever the model prefers, all outputs match, and none comes to a dead end."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Decode
from regard.decoding import collect, make_constraint, make_rules, search
from regard.system.errors import UserError
from tests.decoding.table import END, START, Table

PIECES = ["", "", "", "a", "b", " a", "ab", "1", " 12", ".", "é", " "]
"""The texts of the tokens; the first three are special."""
STRATEGIES = {
    "greedy": {},
    "beam": {"beam": 3, "n_best": 3},
    "sample": {"n_best": 3},
    "diverse-beam": {"beam": 4, "n_best": 4},
    "beam-sample": {"beam": 3, "n_best": 3},
}


def outputs(seeds: list[int], *, strategy: str = "greedy", length: int = 14, **constraint):
    decode = Decode(strategy=strategy, max_new_tokens=length, **STRATEGIES[strategy])
    rules = make_rules(decode, end=END, constraint=make_constraint(PIECES, **constraint))
    table = Table(len(PIECES))
    state = table.start(torch.tensor(seeds)[:, None])
    first = torch.full((len(seeds),), START)
    steps = search(table, state, first, decode, end=END, rules=rules)
    return [
        ("".join(PIECES[token] for token in one.tokens), one.finished)
        for hypotheses in collect(steps, n_best=decode.n_best)
        for one in hypotheses
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("regex", ["(a|b)+1", r"\d{2,4}", "[^.]*é", "ab( a)*", "a?b?"])
@given(seeds=st.lists(st.integers(5, 9_999), min_size=1, max_size=3))
def test_a_finished_output_matches(strategy: str, regex: str, seeds: list[int]) -> None:
    for text, finished in outputs(seeds, strategy=strategy, regex=regex):
        if finished:
            assert re.fullmatch(regex, text) or re.fullmatch(regex, text.removeprefix(" "))


@given(seeds=st.lists(st.integers(5, 9_999), min_size=2, max_size=4))
def test_only_the_given_choices_are_generated(seeds: list[int]) -> None:
    choices = ["ab", "ab1.", "a", "é a"]
    results = outputs(seeds, choices=choices)
    assert all(finished for _, finished in results)
    assert {text.removeprefix(" ") for text, _ in results} <= {*choices}


def test_every_choice_can_be_generated() -> None:
    choices = ["ab", "b.1", "a"]
    results = outputs(list(range(5, 80)), strategy="sample", choices=choices)
    assert {text.removeprefix(" ") for text, _ in results} == {*choices}


def test_tokens_that_lead_to_a_dead_end_are_not_taken() -> None:
    """After "1" no token has the "2" alone that would be needed: only " 12" has it."""
    for text, finished in outputs(list(range(5, 40)), regex="(12|a1)"):
        assert finished
        assert text in (" 12", "a1", " a1")


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ({"regex": "z+"}, "no text of this run's vocabulary matches"),
        ({"regex": "12?3"}, "no text of this run's vocabulary matches"),
        ({"regex": "a("}, "without its ')'"),
        ({"regex": "a", "choices": ["b"]}, "give one of them"),
        ({"choices": ["ab", "xyz"]}, "'xyz' cannot be spelled"),
        ({"choices": [""]}, "an empty text is no output"),
        ({"regex": "(a|b)*a(a|b){14}"}, "it needs more than 1,000 states"),
    ],
)
def test_what_cannot_be_matched_is_refused(constraint, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        make_constraint(PIECES, **constraint)


def test_a_batch_is_its_rows() -> None:
    seeds = [5, 6, 7, 8]
    together = outputs(seeds, regex="(a|b)+1")
    assert together == [outputs([seed], regex="(a|b)+1")[0] for seed in seeds]
