"""Regular expressions as automata: what Python's `re` matches, and nothing that takes forever."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.pattern import literal, parse_pattern
from regard.system.errors import UserError

ATOMS = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\s", r"\S", "1", " ", r"\.", "-"]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{0}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


def matches(pattern: str, text: str) -> bool:
    automaton = parse_pattern(pattern)
    return automaton.accepts(automaton.walk(automaton.start, text))


@settings(max_examples=60)
@given(pattern=PATTERNS, texts=st.lists(st.text("abc1 .-\n", max_size=6), min_size=5, max_size=5))
def test_an_automaton_accepts_what_re_matches(pattern: str, texts: list[str]) -> None:
    for text in texts:
        assert matches(pattern, text) == bool(re.fullmatch(pattern, text))


@settings(max_examples=30)
@given(pattern=PATTERNS, text=st.text("abc1 .-", max_size=6))
def test_what_begins_a_match_is_not_given_up(pattern: str, text: str) -> None:
    automaton = parse_pattern(pattern)
    if re.fullmatch(pattern, text):
        assert all(automaton.walk(automaton.start, text[:n]) for n in range(len(text) + 1))


@given(st.text(max_size=8), st.text(max_size=8))
def test_a_literal_matches_itself_alone(text: str, other: str) -> None:
    assert matches(literal(text), text)
    assert matches(literal(text), other) == (text == other)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "'(' without its ')'"),
        ("a)", "')' without a '('"),
        ("*a", "'*' has nothing before it to repeat"),
        ("a**", "a repeat of a repeat"),
        ("a*?", "a repeat of a repeat"),
        ("a{2,1}", "{2,1} ends below"),
        ("a{2", "'{' without its '}'"),
        ("a{}", "a number of up to four digits"),
        ("a{99999}", "a number of up to four digits"),
        ("[b-a]", "a range ends below"),
        ("[]", "an empty set"),
        ("[a", "it ends within a set"),
        ("a\\", "it ends within a set or after"),
        (r"\1", r"'\1' is not known here"),
        (r"\bword", r"'\b' is not known here"),
        ("^a$", "'^' is not needed: the whole output must match"),
        ("(?=a)", "'(?' may only be '(?:'"),
        ("(?P<n>a)", "'(?' may only be '(?:'"),
        ("(" * 60 + "a" + ")" * 60, "more than 50 brackets within brackets"),
        ("((a{999}){999}){999}", "it needs more than 10,000 places"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(pattern: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        parse_pattern(pattern)


def test_no_expression_takes_longer_than_its_size_times_the_text() -> None:
    began = time.perf_counter()
    assert not matches("(a*)*b", "a" * 2_000)  # with backtracking: 2^2000 ways
    assert time.perf_counter() - began < 5
