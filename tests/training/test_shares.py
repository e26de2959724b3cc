"""Batches in shares, a thread each: the same update, and the same bits every time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.data.batches import FEWEST_ROWS, collate
from regard.data.text import TextBatch
from regard.errors import UserError
from regard.tasks import TASKS
from regard.tasks.classify import collate_classes
from regard.train import _loop, train
from regard.training.engine import Engine
from tests.conftest import TINY

ROWS = [[4 + number % 5, 5, 6][: 1 + number % 3] for number in range(64)]


@given(rows=st.integers(1, 64), count=st.integers(1, 5))
def test_shares_hold_every_row_once_and_all_targets(rows: int, count: int) -> None:
    batch = collate(ROWS[:rows], ROWS[-rows:])
    shares = batch.shares(count)
    assert len(shares) == (count if rows >= FEWEST_ROWS * count else 1)
    assert sum(share.tokens for share in shares) == batch.tokens
    found = sorted(row for share in shares for row in share.target_out.tolist())
    assert found == sorted(batch.target_out.tolist())


def test_texts_with_classes_are_shared_out_and_running_text_is_not() -> None:
    batch = collate_classes(ROWS, [[number % 2] for number in range(64)])
    first, second = batch.shares(2)
    assert first.tokens + second.tokens == 64
    assert first.classes.tolist() == batch.classes.tolist()[::2]
    text = TextBatch(batch.source, batch.source, 128, first=True)
    assert text.shares(2) == [text]


def gradients(shares: int, *settings: str) -> dict[str, torch.Tensor]:
    """Of the second update, which has a first one behind it."""
    resolved = config.load("sort", [*TINY, "train.batch_size=64", *settings])
    task = TASKS["translate"](resolved)
    torch.manual_seed(1)
    model = task.build_model()
    loop = _loop(resolved, task, model, Engine())
    loop.shares = shares
    loop.clip = 0.0
    batches = loop._batches()
    loop.update(model, dict([next(batches)]))
    kept: dict[str, torch.Tensor] = {}
    loop.optimiser.step = lambda: kept.update(  # type: ignore[method-assign]
        {name: value.grad.clone() for name, value in model.named_parameters()}
    )
    loop.update(model, dict(next(batches) for _ in range(2)))
    return kept


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_an_update_in_shares_is_the_update_of_the_whole(kind: str) -> None:
    settings = [f"model.kind={kind}", "model.dropout=0", "train.label_smoothing=0.1"]
    whole = gradients(1, *settings)
    for count in (2, 3):
        for name, gradient in gradients(count, *settings).items():
            torch.testing.assert_close(gradient, whole[name], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        ["model.attention_dropout=0.3"],
        ["train.r_drop=1"],
        ["model.kind=gru", "model.n_layers=2", "train.teacher_forcing=0.5"],
    ],
    ids=["attention dropout", "R-Drop", "teacher forcing"],
)
def test_whatever_is_drawn_at_random_threads_do_not_disturb_each_other(
    settings: list[str],
) -> None:
    first, second = (gradients(3, "model.dropout=0.3", *settings) for _ in range(2))
    assert all(first[name].equal(second[name]) for name in first)
    shares_differ = gradients(2, "model.dropout=0.3", *settings)
    assert not all(first[name].allclose(shares_differ[name]) for name in first)


def test_a_share_with_a_broken_loss_stops_the_run_in_a_sentence(tmp_path: Path) -> None:
    settings = [*TINY, "train.batch_size=64", "train.shares=2", "train.lr=1000", "train.steps=400"]
    resolved = config.load("sort", [*settings, "train.warmup=0", "train.clip=0"])
    with pytest.raises(UserError, match=r"Try a lower train\.lr"):
        train(resolved, tmp_path / "run")


def test_rows_of_a_share_are_every_other_one() -> None:
    batch = collate(ROWS, ROWS)
    assert np.array_equal(batch.shares(2)[1].source, batch.source[1::2])
