"""Synthetic tasks: right answers, three kinds, and held-out sets that are never trained on."""

from itertools import islice

import pytest

from regard.data.synthetic import (
    HELD_OUT,
    KINDS,
    TASKS,
    held_out_pairs,
    split_of,
    stream,
    training_pairs,
)


@pytest.mark.parametrize("task", TASKS)
def test_targets_are_right(task: str) -> None:
    answer = {"sort": sorted, "copy": list, "reverse": lambda digits: digits[::-1]}[task]
    for source, target in islice(stream(task, "train", seed=1, epoch=0, longest=20), 300):
        digits = [int(word) for word in source.split()]
        assert target == " ".join(map(str, answer(digits)))
        assert 2 <= len(digits) <= 20


def test_the_three_kinds_take_turns() -> None:
    assert len(KINDS) == 3
    pairs = list(islice(stream("sort", "train", seed=3, epoch=0, longest=20), 300))
    falling, permuted, repeated = (
        [[int(word) for word in source.split()] for source, _ in pairs[kind::3]]
        for kind in range(3)
    )
    assert all(digits == sorted(digits, reverse=True) for digits in falling)
    assert all(sorted(digits) == list(range(10)) for digits in permuted)
    assert any(len(set(digits)) < len(digits) for digits in repeated)
    assert {len(digits) for digits in falling + repeated} == set(range(2, 21))


@pytest.mark.parametrize("split", ["valid", "test"])
def test_held_out_sets_never_meet_the_training_stream(split) -> None:
    held_out = {source for source, _ in held_out_pairs("sort", split, longest=20)}
    assert len(held_out) == HELD_OUT[split]
    assert all(split_of(source) == split for source in held_out)
    for seed in (1, 2):
        for epoch in (0, 1):
            trained = {s for s, _ in training_pairs("sort", seed=seed, epoch=epoch, longest=20)}
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
    first = training_pairs("copy", seed=1, epoch=2, longest=20)
    assert first == training_pairs("copy", seed=1, epoch=2, longest=20)
    assert first != training_pairs("copy", seed=1, epoch=3, longest=20)
    assert first != training_pairs("copy", seed=2, epoch=2, longest=20)
