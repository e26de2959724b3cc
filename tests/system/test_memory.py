"""Memory that runs out is found at the start, and the batch that it ran out for is named."""

from pathlib import Path

import pytest
import torch

from regard import config
from regard.data.batches import BatchStream
from regard.data.examples import InMemory
from regard.runs.trainer import _loop, train
from regard.system import memory
from regard.system.engine import make_engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.tasks import Translate
from regard.training.gradients import WholeBatch
from regard.training.loop import Loop
from tests.conftest import TINY


def test_memory_that_runs_out_is_found_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest batch comes first; a batch that fails later is named by its place."""

    def full(self, *arguments, **options):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    monkeypatch.setattr(WholeBatch, "_forward", full)
    with pytest.raises(UserError, match=r"the largest batch \(\d+ rows of up to \d+ and \d+ tok"):
        train(config.load("sort", TINY), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    stream = BatchStream(
        lambda epoch: InMemory(
            [[4] * n for n in range(1, 41)], [[4] * (41 - n) for n in range(1, 41)]
        ),
        seed=1,
        batch_size=5,
        window=10,
        block=5,
    )
    read, written, *_ = stream.largest(0).values()
    assert read.source.numel() == max(one.source.numel() for one in stream.epoch(0))
    assert written.target_in.numel() == max(one.target_in.numel() for one in stream.epoch(0))
    alike = BatchStream(lambda epoch: InMemory([[4]] * 9, [[4]] * 9), seed=1, batch_size=5)
    assert list(alike.largest(0)) == ["5 rows of up to 2 and 2 tokens"]
    sides = [([4] * 39, [4] * 4)] * 9 + [([4] * 4, [4] * 39)] * 9 + [([4] * 38, [4] * 38)] * 9
    mixed = BatchStream(
        lambda epoch: InMemory(*map(list, zip(*sides, strict=True))), seed=1, batch_size=9
    )
    assert "9 rows of up to 39 and 39 tokens" in mixed.largest(0)

    monkeypatch.setattr(Loop, "probe", lambda self: None)
    with pytest.raises(UserError, match=r"not enough memory for epoch 1, batch 1\. .*accumulate=2"):
        train(config.load("sort", TINY), tmp_path / "other")


def test_evaluation_takes_no_larger_batches_than_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that memory which was enough at the start is enough; and if not, a sentence says so."""
    for size in ("train.batch_tokens=64", "train.batch_size=3"):
        settings = [one for one in TINY if "batch_tokens" not in one]
        task = Translate.learn(config.load("sort", [*settings, "train.batch_tokens=null", size]))
        batches = [*task.batches_of("valid").epoch(0)]
        if "tokens" in size:
            assert max(batch.target_in.numel() for batch in batches) <= 64
        else:
            assert max(len(batch.source) for batch in batches) == 3
        assert sum(len(batch.source) for batch in batches) == len(task.examples("valid"))

    real = Translate.sums

    def full_when_evaluating(*given, **options):
        if torch.is_grad_enabled():
            return real(*given, **options)
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    monkeypatch.setattr(Translate, "sums", full_when_evaluating)
    with pytest.raises(UserError, match=r"not enough memory for a batch of data\.valid\."):
        train(config.load("sort", TINY), tmp_path / "run")


def test_looking_for_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    decayed = ["train.optimizer=adamw", "train.weight_decay=0.5"]  # by a step of any length
    resolved = config.load("sort", [*TINY, *decayed])
    task = Translate.learn(resolved)
    model = task.build_model()
    loop = _loop(resolved, task, model, make_engine())
    before = {name: part.clone() for name, part in model.state_dict().items()}
    loop.probe()
    assert not loop.optimiser.state
    assert loop.learning_rate == loop.schedule(1) > 0
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_a_model_that_memory_cannot_hold_is_refused_before_it_is_made(
    kind: str, tmp_path: Path
) -> None:
    wide = ["model.d_model=65536", "model.n_layers=6", f"model.kind={kind}", "data.epoch_size=100"]
    with pytest.raises(
        UserError,
        match=r"^A model of [\d,]+ weights would need about [\d.]+ TB of memory, and .* are "
        r"available. Try a smaller model.d_model or model.n_layers.$",
    ):
        train(config.load("sort", wide), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_available_memory_is_what_the_system_says(tmp_path, monkeypatch) -> None:
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory.available_memory() is None
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:    2000 kB\n")
    assert memory.available_memory() == 2_048_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_memory() == 2_048_000
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory.available_memory() == 600_000
    memory.require_memory(500_000, what="It", remedy="less")
    with pytest.raises(UserError, match=r"^It would need about 2 MB .* 600 kB are .* Try less.$"):
        memory.require_memory(2_000_000, what="It", remedy="less")


def test_other_errors_are_not_taken_for_memory() -> None:
    with pytest.raises(RuntimeError, match="shapes differ"), naming_the_batch("batch 1"):
        raise RuntimeError("shapes differ")
    with pytest.raises(UserError, match="for batch 1"), naming_the_batch("batch 1"):
        raise torch.OutOfMemoryError("CUDA out of memory")
