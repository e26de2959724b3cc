"""Pearson and Spearman correlation, and averages over classes, beside SciPy and scikit-learn."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from regard.metrics.classes import class_averages, class_scores
from regard.metrics.correlation import pearson, ranks, spearman

numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, width=32))
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=30)


@given(pairs)
def test_they_are_those_of_scipy(rows: list[tuple[float, float]]) -> None:
    x, y = zip(*rows, strict=True)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert pearson(x, y) == spearman(x, y) == 0.0
        return
    assert ranks(x) == stats.rankdata(x).tolist()
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    if min(max(x) - min(x), max(y) - min(y)) > 1e-3:  # else rounding decides
        assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-6)


def test_a_worked_example() -> None:
    """Σ of products 6, of squares 10 and 4.8: 6 / √48 = 0.866."""
    x, y = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 2.0, 3.0, 5.0, 4.0]
    assert pearson(x, y) == pytest.approx(7 / math.sqrt(10 * 6.8))
    assert ranks(y) == [1.5, 1.5, 3.0, 5.0, 4.0]
    assert spearman(x, [v**3 for v in x]) == pytest.approx(1.0)
    assert spearman(x, [-v for v in x]) == pytest.approx(-1.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1))
def test_class_averages_are_those_of_scikit_learn(rows: list[tuple[str, str]]) -> None:
    targets, predicted = zip(*rows, strict=True)
    expected = metrics.precision_recall_fscore_support(
        targets, predicted, average="macro", zero_division=0
    )
    assert list(class_averages(rows).values()) == pytest.approx(list(expected[:3]))


def test_the_scores_of_each_class() -> None:
    scores = class_scores([("a", "a"), ("a", "b"), ("b", "b"), ("c", "b")])
    assert scores["a"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    assert scores["b"] == {"precision": pytest.approx(1 / 3), "recall": 1.0, "f1": 0.5}
    assert scores["c"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
