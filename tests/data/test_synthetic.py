"""Synthetic tasks: right answers, three kinds, and held-out sets that are never trained on."""

from itertools import islice

import pytest

from regard.config import Data
from regard.data.generators import GENERATORS
from regard.data.splits import split_of
from regard.data.synthetic import KINDS, TASKS, stream
from regard.system.errors import UserError

DATA = Data(max_length=20)


@pytest.mark.parametrize("task", TASKS)
def test_targets_are_right(task: str) -> None:
    answer = {"sort": sorted, "copy": list, "reverse": lambda digits: digits[::-1]}[task]
    for source, target in islice(stream(task, DATA, "train", seed=1, epoch=0), 300):
        digits = [int(word) for word in source.split()]
        assert target == " ".join(map(str, answer(digits)))
        assert 2 <= len(digits) <= 20


def test_the_three_kinds_take_turns() -> None:
    assert len(KINDS) == 3
    pairs = list(islice(stream("sort", DATA, "train", seed=3, epoch=0), 300))
    descending, permuted, repeated = (
        [[int(word) for word in source.split()] for source, _ in pairs[kind::3]]
        for kind in range(3)
    )
    assert all(digits == sorted(digits, reverse=True) for digits in descending)
    assert all(sorted(digits) == list(range(10)) for digits in permuted)
    assert any(len(set(digits)) < len(digits) for digits in repeated)
    assert {len(digits) for digits in descending + repeated} == set(range(2, 21))


@pytest.mark.parametrize("split", ["valid", "test"])
def test_held_out_sets_never_meet_the_training_stream(split, all_held_out: None) -> None:
    held_out = {source for source, _ in GENERATORS["sort"].held_out(DATA, split)}
    assert len(held_out) == {"valid": 500, "test": 2000}[split]
    assert all(split_of(source) == split for source in held_out)
    for seed in (1, 2):
        for epoch in (0, 1):
            trained = {s for s, _ in GENERATORS["sort"].training(DATA, seed=seed, epoch=epoch)}
            assert not trained & held_out


def test_every_sequence_belongs_to_one_split_in_a_fixed_share() -> None:
    splits = [
        split_of(f"{a} {b} {c} {d}")
        for a in range(10)
        for b in range(10)
        for c in range(10)
        for d in range(10)
    ]
    assert splits.count("valid") == pytest.approx(1000, abs=120)
    assert splits.count("test") == pytest.approx(1000, abs=120)


def test_the_stream_is_a_function_of_seed_and_epoch() -> None:
    first = GENERATORS["copy"].training(DATA, seed=1, epoch=2)
    assert first == GENERATORS["copy"].training(DATA, seed=1, epoch=2)
    assert first != GENERATORS["copy"].training(DATA, seed=1, epoch=3)
    assert first != GENERATORS["copy"].training(DATA, seed=2, epoch=2)


def test_a_split_that_no_sequence_belongs_to_is_refused() -> None:
    """There are only 55 pairs of digits in descending order, and one in ten is for valid."""
    data = Data(max_length=2, split_seed=20)
    with pytest.raises(UserError, match=r"data.max_length=2 with data.split_seed=20 leaves valid"):
        GENERATORS["sort"].held_out(data, "valid")
    assert GENERATORS["sort"].held_out(Data(max_length=2), "valid")
