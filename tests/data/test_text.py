"""Running text in chunks: nothing is lost, and each row continues where it ended."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.blocks import Cutter
from regard.data.text import TextStream
from regard.data.tokenizer import END, OURS


@given(size=st.integers(1, 60), rows=st.integers(1, 7), length=st.integers(1, 9))
def test_every_token_is_a_target_once_after_the_one_before_it(size, rows, length) -> None:
    text = np.arange(4, 4 + size)
    stream = TextStream(Cutter(lambda: text, length, OURS), rows=rows)
    batches = list(stream.epoch(0))
    assert len(batches) == stream.count(0)
    assert [batch.first for batch in batches] == [True] + [False] * (len(batches) - 1)
    targets = np.concatenate([batch.target.numpy() for batch in batches], axis=1)
    sources = np.concatenate([batch.source.numpy() for batch in batches], axis=1)
    assert targets[targets != 0].tolist() == text.tolist()
    assert sum(batch.tokens for batch in batches) == size
    before = {4: END} | {token: token - 1 for token in range(5, 4 + size)}
    assert all(
        before[target] == source
        for source, target in zip(sources.flat, targets.flat, strict=True)
        if target
    )
    for start in range(len(batches)):
        again = list(stream.epoch(0, start=start))
        assert [one.target.tolist() for one in again] == [
            one.target.tolist() for one in batches[start:]
        ]
