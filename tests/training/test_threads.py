"""Trainings and models that are opened in other threads leave a training's random numbers alone."""

import threading
import time
from pathlib import Path

import torch

import regard
from regard import config
from regard.nn.randomness import seeded
from regard.runs.trainer import train
from tests.conftest import TINY

SETTINGS = [*TINY, "train.steps=8", "train.eval_every=8", "model.dropout=0.3"]


def final_weights(run: Path) -> bytes:
    return (run / "checkpoints/step-8/model.safetensors").read_bytes()


def test_trainings_and_loads_in_threads_end_in_the_bits_they_have_alone(
    tiny_run: Path, tmp_path: Path
) -> None:
    def training(out: Path, seed: int) -> None:
        train(config.load("sort", [*SETTINGS, f"seed={seed}"]), out, say=lambda sentence: None)

    for seed in (1, 2):
        training(tmp_path / f"alone-{seed}", seed)
    threads = [
        threading.Thread(target=training, args=(tmp_path / f"beside-{seed}", seed))
        for seed in (1, 2)
    ]
    for thread in threads:
        thread.start()
    loads = 0
    while any(thread.is_alive() for thread in threads):
        regard.load(tiny_run)
        loads += 1
        time.sleep(0.01)  # the trainings want the processor too
    assert loads > 2
    for seed in (1, 2):
        beside, alone = tmp_path / f"beside-{seed}", tmp_path / f"alone-{seed}"
        assert final_weights(beside) == final_weights(alone)


def test_training_leaves_the_callers_random_numbers_alone(tmp_path: Path) -> None:
    torch.manual_seed(7)
    untouched = torch.rand(3)
    torch.manual_seed(7)
    train(config.load("sort", [*TINY, "train.steps=2", "train.eval_every=2"]), tmp_path / "run")
    assert torch.rand(3).equal(untouched)


def test_threads_take_turns_with_the_seeded_generator() -> None:
    entered, samples = threading.Event(), {}

    def sample() -> None:
        entered.wait(timeout=60)
        with seeded(2):
            samples["other"] = torch.rand(3)

    thread = threading.Thread(target=sample)
    thread.start()
    with seeded(1):
        first = torch.rand(3)
        entered.set()
        thread.join(timeout=0.2)
        assert "other" not in samples
        second = torch.rand(3)
    thread.join(timeout=60)
    alone = torch.rand(6, generator=torch.Generator().manual_seed(1))
    assert torch.cat([first, second]).equal(alone)
    assert samples["other"].equal(torch.rand(3, generator=torch.Generator().manual_seed(2)))
