"""Batches in shares, a thread each: the same update, and the same bits every time."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.data.batches import FEWEST_ROWS, TARGETS, collate
from regard.data.text import TextBatch
from regard.data.text_batch import collate_classes
from regard.nn.dropout import dropout
from regard.nn.randomness import generator, sampling_from
from regard.runs.trainer import _loop, train
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks import TASKS
from regard.training.loop import Loop
from tests.conftest import TINY

ROWS = [[4 + number % 5, 5, 6][: 1 + number % 3] for number in range(64)]


@given(rows=st.integers(1, 64), count=st.integers(1, 5))
def test_shares_hold_every_row_once_and_all_targets(rows: int, count: int) -> None:
    batch = collate(ROWS[:rows], ROWS[-rows:])
    shares = batch.shares(count)
    assert len(shares) == max(1, min(count, rows // FEWEST_ROWS))
    assert sum(share.tokens for share in shares) == batch.tokens
    for part in ("source", "target_in", "target_out"):
        result = sorted(row for share in shares for row in getattr(share, part).tolist())
        assert result == sorted(getattr(batch, part).tolist())
    sizes = [len(share.source) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_texts_with_classes_are_shared_out_and_running_text_is_not() -> None:
    batch = collate_classes(ROWS, [[number % 2] for number in range(64)])
    first, second = batch.shares(2)
    assert first.tokens + second.tokens == 64
    assert first.targets.tolist() == batch.targets.tolist()[::2]
    assert second.source.tolist() == batch.source.tolist()[1::2]
    lengths = torch.full((len(batch.source),), batch.source.size(1))
    text = TextBatch(batch.source, batch.source, 128, first=True, lengths=lengths)
    assert text.shares(2) == [text]


SHARED = ["train.batch_size=64", "train.clip=0"]


def loop_of(shares: int, *settings: str, engine: Engine | None = None) -> Loop:
    resolved = config.load("sort", [*TINY, *SHARED, f"train.shares={shares}", *settings])
    task = TASKS["translate"].learn(resolved)
    torch.manual_seed(1)
    return _loop(resolved, task, task.build_model(), engine or Engine())


def gradients(loop: Loop, *, together: int = 0) -> dict[str, torch.Tensor]:
    """Of an update of two batches, which has another behind it.

    together: how many shares must be under way at once before any of them goes on.
    """
    batches = loop._batches()
    loop.model.train()
    meet, loss = threading.Barrier(together or 1), loop.gradients.loss

    def after_meeting(*arguments: Any) -> Any:
        meet.wait(timeout=60)
        return loss(*arguments)

    kept: dict[str, torch.Tensor] = {}
    with loop.gradients.ready():
        loop.update(loop.model, dict([next(batches)]))
        loop.gradients.loss = after_meeting
        loop.optimiser.step = lambda: kept.update(  # type: ignore[method-assign]
            {name: value.grad.clone() for name, value in loop.model.named_parameters()}
        )
        loop.update(loop.model, dict(next(batches) for _ in range(2)))
    return kept


@pytest.mark.parametrize("kind", ["transformer", "rnn", "gru", "lstm"])
def test_an_update_in_shares_is_the_update_of_the_whole(kind: str, two_threads) -> None:
    settings = [f"model.kind={kind}", "model.dropout=0", "train.label_smoothing=0.1"]
    whole = gradients(loop_of(1, *settings))
    for count in (2, 3):
        for name, gradient in gradients(loop_of(count, *settings)).items():
            torch.testing.assert_close(gradient, whole[name], atol=1e-6, rtol=1e-4)
    assert torch.get_num_threads() == 2  # as it was


DRAWS = {
    "attention dropout": ["model.attention_dropout=0.3"],
    "R-Drop": ["train.r_drop=1"],
    "teacher forcing": ["model.kind=gru", "model.n_layers=2", "train.teacher_forcing=0.5"],
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("settings", DRAWS.values(), ids=DRAWS)
def test_shares_that_run_at_once_come_to_what_they_do_one_by_one(
    settings: list[str], precision: str, two_threads
) -> None:
    made: Callable[[], Loop] = lambda: loop_of(  # noqa: E731
        2, "model.dropout=0.3", *settings, engine=Engine(precision=precision)
    )
    at_once = [gradients(made(), together=2) for _ in range(2)]
    torch.set_num_threads(1)
    alone = gradients(made())
    for result in at_once:
        assert all(result[name].equal(alone[name]) for name in alone)


def test_every_share_of_every_batch_of_an_update_draws_its_own(two_threads) -> None:
    loop, drawn = loop_of(2), []
    loss = loop.gradients.loss

    def seen(*arguments: Any) -> Any:
        own = generator()
        drawn.append(torch.initial_seed() if own is None else own.initial_seed())
        return loss(*arguments)

    loop.gradients.loss = seen
    batches = loop._batches()
    with loop.gradients.ready():
        for _ in range(2):
            loop.update(loop.model, dict(next(batches) for _ in range(2)))
        loop.gradients.shares = 1
        loop.update(loop.model, dict([next(batches)]))
    assert len(drawn) == 9
    assert len(set(drawn)) == 9


def test_dropout_draws_from_the_generator_of_its_thread() -> None:
    x = torch.ones(1000)
    masks = []
    for seed in (1, 1, 2):
        with sampling_from(torch.Generator().manual_seed(seed)):
            masks.append(dropout(x, 0.5))
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])
    assert generator() is None


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("loss", r"The loss is inf at step 1 \(epoch 1, batch 1\)"),
        ("memory", "There is not enough memory for epoch 1, batch 1"),
    ],
)
def test_a_fault_in_one_share_comes_out_in_a_sentence(fault: str, words: str, two_threads) -> None:
    loop = loop_of(2)
    loss, first = loop.gradients.loss, threading.Lock()

    def broken(*arguments: Any) -> Any:
        sums = loss(*arguments)
        if not first.acquire(blocking=False):  # the second share alone
            if fault == "memory":
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
            sums[TARGETS].loss = sums[TARGETS].loss * torch.inf
        return sums

    loop.gradients.loss = broken
    with loop.gradients.ready(), pytest.raises(UserError, match=words):
        loop.update(loop.model, dict([next(loop._batches())]))


def test_an_engine_that_does_not_share_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not Engine(compiled=True).shares_out
    assert not Engine(torch.device("cuda")).shares_out
    settings = [*TINY, "train.steps=1", "train.shares=2"]
    messages: list[str] = []
    train(config.load("sort", settings), tmp_path / "cpu", say=messages.append)
    assert not messages
    monkeypatch.setattr(Engine, "shares_out", False)
    train(config.load("sort", settings), tmp_path / "other", say=messages.append)
    assert "train.shares=2 is for a CPU without --compile or --shard" in messages[0]


def test_the_probe_goes_by_shares_and_beside_the_state_of_muon(two_threads) -> None:
    loop = loop_of(2, "train.optimizer=muon", "train.accumulate=2")
    seen: list[int] = []
    loss = loop.gradients.loss

    def watched(model: Any, batch: Any, carried: Any) -> Any:
        seen.append(len(batch.source))
        held = [value.grad is not None for value in loop.model.parameters()]
        assert all(held)  # of the batch before
        assert all("momentum_buffer" in s or "exp_avg" in s for s in loop.optimiser.state.values())
        return loss(model, batch, carried)

    loop.gradients.loss = watched
    loop.probe()
    assert seen == [32, 32]
    assert not loop.optimiser.state
