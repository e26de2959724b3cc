"""Batches: every example once, within the budget, in an order that (seed, epoch) decides."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import BatchStream, collate, cut, pad
from regard.data.examples import InMemory
from regard.data.tokenizer import SpecialIds

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


@given(lengths=LENGTHS, budget=st.integers(1, 400), seed=st.integers(0, 9), epoch=st.integers(0, 3))
def test_every_example_once_and_padded_size_within_the_budget(lengths, budget, seed, epoch) -> None:
    table = np.array(lengths)
    batches = cut(table, seed=[seed, epoch], batch_tokens=budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * table[rows].max() <= budget


@given(lengths=LENGTHS, size=st.integers(1, 30))
def test_batch_size_counts_rows(lengths, size) -> None:
    batches = cut(np.array(lengths), seed=[0], batch_size=size)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert sum(len(rows) != size for rows in batches) <= 1


def test_order_is_a_function_of_seed_and_epoch() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, (200, 2))

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [r.tolist() for r in cut(lengths, seed=[seed, epoch], batch_tokens=100)]

    assert order(1, 1) == order(1, 1)
    assert order(1, 1) != order(1, 2)
    assert order(1, 1) != order(2, 1)


def test_buckets_leave_little_padding() -> None:
    lengths = np.random.default_rng(0).integers(2, 41, (3000, 1)).repeat(2, axis=1)
    batches = cut(lengths, seed=[0], batch_tokens=1024)
    padded = sum(len(rows) * lengths[rows].max() for rows in batches)
    assert lengths[:, 0].sum() / padded > 0.95


def test_teacher_forcing_shifts_the_target_by_one() -> None:
    batch = collate([[7, 8], [9]], [[4], [5, 6]])
    assert batch.source.tolist() == [[7, 8, 2], [9, 2, 0]]
    assert batch.target_in.tolist() == [[1, 4, 0], [1, 5, 6]]
    assert batch.target_out.tolist() == [[4, 2, 0], [5, 6, 2]]
    assert batch.tokens == 5
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_lengths.tolist() == [2, 3]
    assert batch.to(torch.device("cpu")).source.equal(batch.source)


def test_batches_are_made_of_the_tokenizers_special_ids() -> None:
    ids = SpecialIds(padding=9, start=8, end=7)
    batch = collate([[0, 1], [2]], [[3], [0, 5]], source_ids=ids, target_ids=ids)
    assert batch.source.tolist() == [[0, 1, 7], [2, 7, 9]]
    assert batch.target_in.tolist() == [[8, 3, 9], [8, 0, 5]]
    assert batch.target_out.tolist() == [[3, 7, 9], [0, 5, 7]]


def test_without_a_padding_id_targets_past_the_end_are_no_token() -> None:
    ids = SpecialIds(end=7)
    batch = collate([[0, 1], [2]], [[3], [0, 5]], source_ids=ids, target_ids=ids)
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_in.tolist() == [[7, 3, 0], [7, 0, 5]]
    assert batch.target_out.tolist() == [[3, 7, -100], [0, 5, 7]]


def test_shares_of_a_batch_keep_their_lengths_and_count_their_tokens() -> None:
    rows = [[4] * (1 + n % 5) for n in range(32)]
    batch = collate(rows, rows[::-1])
    shares = batch.shares(4)
    assert len(shares) == 4
    assert sum(share.tokens for share in shares) == batch.tokens
    for share in shares:
        assert share.source_lengths.tolist() == (share.source != 0).sum(1).tolist()
        assert share.target_lengths.sum() == share.tokens == (share.target_out != 0).sum()


def test_pad_fills_at_the_end() -> None:
    assert pad([[5], [6, 7, 8]]).tolist() == [[5, 0, 0], [6, 7, 8]]


@pytest.mark.parametrize("start", [0, 3])
def test_a_stream_can_start_anywhere_in_an_epoch(start: int) -> None:
    rows = range(1, 30)
    examples = InMemory([[4] * n for n in rows], [[5] * n for n in rows])
    stream = BatchStream(lambda epoch: examples, seed=1, batch_tokens=64)
    whole = list(stream.epoch(2))
    rest = list(stream.epoch(2, start=start))
    assert len(rest) == len(whole) - start
    assert all(a.source.equal(b.source) for a, b in zip(whole[start:], rest, strict=True))
