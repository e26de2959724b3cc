"""Packed blocks: each token of a text a target, without padding, in an order of (seed, epoch)."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.blocks import BlockStream, Cutter
from regard.data.tokenizer import OURS

SIZES = given(
    tokens=st.integers(1, 60),
    rows=st.integers(1, 5),
    length=st.integers(1, 9),
    epoch=st.integers(0, 3),
)


def stream(tokens: int, rows: int, length: int, seed: int = 1) -> BlockStream:
    return BlockStream(cutter(tokens, length), rows=rows, seed=seed)


def cutter(tokens: int, length: int) -> Cutter:
    text = np.arange(4, 4 + tokens, dtype=np.uint32)
    return Cutter(lambda: text, length, OURS)


def real(batches) -> list[tuple[int, int]]:
    """(source, target) of every real token."""
    return [
        (int(source), int(target))
        for batch in batches
        for row in range(len(batch.source))
        for source, target in zip(
            batch.source[row, : batch.lengths[row]],
            batch.target[row, : batch.lengths[row]],
            strict=True,
        )
    ]


@SIZES
def test_every_target_stands_after_its_source_and_none_is_met_twice(
    tokens: int, rows: int, length: int, epoch: int
) -> None:
    batches = list(stream(tokens, rows, length).epoch(epoch))
    pairs = real(batches)
    assert all(source == (OURS.end if target == 4 else target - 1) for source, target in pairs)
    assert len(pairs) == len(set(pairs)) == sum(batch.tokens for batch in batches)
    assert len(batches) == stream(tokens, rows, length).count(epoch)
    assert tokens - len(pairs) < 2 * length  # the rest: less than a block at each end


@SIZES
def test_blocks_have_no_padding_if_the_text_fills_one(
    tokens: int, rows: int, length: int, epoch: int
) -> None:
    for batch in stream(tokens, rows, length).epoch(epoch):
        assert tokens < length or batch.lengths.eq(length).all()


@SIZES
def test_progress_is_an_integer(tokens: int, rows: int, length: int, epoch: int) -> None:
    blocks = stream(tokens, rows, length)
    whole = [batch.target.tolist() for batch in blocks.epoch(epoch)]
    for start in range(len(whole) + 1):
        assert [batch.target.tolist() for batch in blocks.epoch(epoch, start=start)] == whole[
            start:
        ]


def test_order_and_cuts_differ_from_epoch_to_epoch_and_are_those_of_the_seed() -> None:
    orders = [
        [batch.target.tolist() for batch in stream(60, 2, 5, seed).epoch(epoch)]
        for seed, epoch in ((1, 0), (1, 1), (2, 0), (1, 0))
    ]
    assert orders[0] == orders[3]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    firsts = {min(real(stream(60, 2, 5).epoch(epoch)))[1] for epoch in range(20)}
    assert firsts == {4, 5, 6, 7, 8}


@SIZES
def test_in_order_every_token_is_a_target_once(
    tokens: int, rows: int, length: int, epoch: int
) -> None:
    batches = cutter(tokens, length).in_order(rows=rows)
    assert [target for _, target in real(batches)] == list(range(4, 4 + tokens))


def test_documents_begin_with_their_end_and_are_numbered_within_a_block() -> None:
    text = np.array([7, 8, OURS.end, 9, OURS.end, 5, 6])
    marked = Cutter(lambda: text, 4, OURS, mark_documents=True)
    (batch,) = marked.in_order(rows=2)
    assert batch.source.tolist() == [[2, 7, 8, 2], [9, 2, 5, 0]]
    assert batch.documents.tolist() == [[1, 1, 1, 2], [0, 1, 1, 1]]
    assert batch.rows(slice(1, 2)).documents.tolist() == [[0, 1, 1, 1]]


def test_shares_of_a_batch_hold_its_rows() -> None:
    batch = next(stream(200, 20, 5).epoch(0))
    shares = batch.shares(2)
    assert len(shares) == 2
    assert sum(share.tokens for share in shares) == batch.tokens
    assert sorted(real(shares)) == sorted(real([batch]))


def test_the_order_of_the_blocks_takes_four_bytes_of_each() -> None:
    blocks = 10**6
    text = np.broadcast_to(np.uint32(5), (blocks,))  # takes no memory
    batches = BlockStream(Cutter(lambda: text, 1, OURS), rows=4, seed=1)
    tracemalloc.start()
    try:
        next(batches.epoch(0))
        assert tracemalloc.get_traced_memory()[1] < 5 * blocks
    finally:
        tracemalloc.stop()
