"""Error rates, by hand and by the properties of a distance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.errors import edit_distance, phoneme_error_rate, word_error_rate
from regard.metrics.exact import exact_match

WORDS = st.text(alphabet="abc", max_size=8)


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("ab", "ba", 2), ("a", "a", 0)],
)
def test_the_fewest_edits(one: str, other: str, edits: int) -> None:
    assert edit_distance(one, other) == edits


@given(WORDS, WORDS, WORDS)
def test_it_is_a_distance(one: str, other: str, third: str) -> None:
    assert edit_distance(one, other) == edit_distance(other, one)
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, third) <= edit_distance(one, other) + edit_distance(other, third)
    assert abs(len(one) - len(other)) <= edit_distance(one, other) <= max(len(one), len(other))


def test_any_reference_counts() -> None:
    references = [["T AH M EY T OW", "T AH M AA T OW"], ["K AE T"]]
    assert exact_match(["T AH M AA T OW", "K AE"], references) == 0.5
    assert word_error_rate(["T AH M AA T OW", "K AE"], references) == 0.5


def test_phoneme_errors_are_counted_against_the_nearest_reference() -> None:
    references = [["A B C D", "X Y"], ["K AE T"]]
    # X Z is one edit from X Y (2 phonemes); K AE lacks one of 3.
    assert phoneme_error_rate(["X Z", "K AE"], references) == pytest.approx((1 + 1) / (2 + 3))
