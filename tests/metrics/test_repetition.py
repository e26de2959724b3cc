"""Distinct n-grams, repeated n-grams and self-BLEU, by counts written out and by sacrebleu."""

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.repetition import distinct, repeated
from regard.metrics.self_bleu import self_bleu
from regard.metrics.words import words

TEXTS = st.lists(st.lists(st.sampled_from("abcd"), max_size=9), max_size=4)


def test_distinct_and_repeated_by_hand() -> None:
    texts = [["a", "b", "a", "b", "a", "b"], ["a", "c"]]
    assert distinct(texts, 1) == 3 / 8
    assert distinct(texts, 2) == 3 / 6  # ab, ba, ac
    assert repeated(texts, 2) == 3 / 6  # of ab ba ab ba ab, three stood there before
    assert repeated(texts, 4) == 1 / 3  # abab baba abab
    assert distinct([], 1) == repeated([["a"]], 4) == 0


@given(TEXTS, st.integers(1, 4))
def test_they_are_what_a_loop_counts(texts: list[list[str]], n: int) -> None:
    seen: set[tuple[str, ...]] = set()
    total = again = 0
    for text in texts:
        here: set[tuple[str, ...]] = set()
        for place in range(len(text) - n + 1):
            ngram = tuple(text[place : place + n])
            total, again = total + 1, again + (ngram in here)
            here.add(ngram)
        seen |= here
    assert distinct(texts, n) == (len(seen) / total if total else 0)
    assert repeated(texts, n) == (again / total if total else 0)


def test_self_bleu_is_the_mean_of_sacrebleu() -> None:
    texts = ["the cat sat on the mat", "the cat ran on the mat", "a dog"]
    expected = [
        sacrebleu.sentence_bleu(text, [one for one in texts if one != text], tokenize="none").score
        for text in texts
    ]
    assert self_bleu([text.split() for text in texts]) == pytest.approx(sum(expected) / 3)
    assert self_bleu([["a", "b", "c", "d"]] * 3) == pytest.approx(100)
    assert self_bleu([["a"]]) is None


def test_words_of_any_language() -> None:
    assert words("The cat's 2 mats.") == ["The", "cat", "'", "s", "2", "mats", "."]
    assert words("我爱 GPT模型。") == ["我", "爱", "GPT", "模", "型", "。"]
