"""Frozen weights and learning rates by part of the model."""

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from regard import config
from regard.runs.run import Run
from regard.runs.trainer import train
from regard.system.errors import UserError
from regard.tasks import TASKS
from regard.training.groups import describe_groups, freeze, lr_scales
from regard.training.optimisers import make_optimiser, optimiser_tensors, restore_optimiser
from tests.conftest import TINY

RATES = ["train.freeze=encoder.layers.0, source_embedding", "train.lr_scale=decoder=0.5"]
RATES += ["train.schedule=constant"]

OPTIMISER = "optimizer.safetensors"


def trained(path: Path, *settings: str, **options) -> Run:
    return train(config.load("sort", [*TINY, *RATES, *settings]), path, **options)[0]


class Small(nn.Module):
    """Two parts, and an output that shares its weight with the first."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])})
        self.encoder_norm = nn.LayerNorm(4)
        self.output = nn.Linear(4, 5)
        self.output.weight = self.embedding.weight


@pytest.mark.parametrize(
    "more",
    [
        ["train.optimizer=adam"],
        ["train.optimizer=adamw", "train.weight_decay=0.1", "train.ema=0.9"],
        ["train.optimizer=muon", "train.batch_size=32"],
        ["train.average=3", "train.eval_every=2"],
    ],
    ids=["adam", "adamw, ema", "muon", "average"],
)
def test_frozen_weights_keep_their_bits_and_resuming_gives_the_same(tmp_path, more) -> None:
    shares = ["train.shares=2"] if "train.optimizer=muon" in more else []
    trained(tmp_path / "whole", *more, *shares)
    trained(tmp_path / "parts", *more, *shares, "train.steps=4")
    trained(tmp_path / "parts", *more, *shares, resume=True)
    last = "checkpoints/step-6"
    for name in ("model", "optimizer"):
        whole, parts = (tmp_path / run / last / f"{name}.safetensors" for run in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes()
    resolved = config.load("sort", [*TINY, *RATES, *more])
    start = first_weights(resolved)
    best = load_file(tmp_path / "parts" / "model.safetensors")
    end = load_file(tmp_path / "parts" / last / "model.safetensors")
    state = {name.rsplit("/", 1)[0] for name in load_file(tmp_path / "parts" / last / OPTIMISER)}
    for name, weight in start.items():
        is_frozen = name.startswith(("encoder.layers.0.", "source_embedding."))
        assert (name in state) == (not is_frozen)
        assert end[name].equal(weight) == is_frozen
        assert best[name].equal(weight) or not is_frozen


def first_weights(resolved: config.Config) -> dict[str, torch.Tensor]:
    model = TASKS[resolved.task].learn(resolved).build_model()
    return {name: weight.detach() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_a_part_learns_at_its_scale_times_the_learning_rate(name: str) -> None:
    scales = {"encoder": 0.1, "encoder.layers.1": 2.0}
    steps = {}
    for lr_scale in ({}, scales):
        torch.manual_seed(2)
        model = Small()
        start = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        optimiser = make_optimiser(model, name=name, lr=1e-3, lr_scale=lr_scale)
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
        for group in optimiser.param_groups:
            group["lr"] = group["lr_scale"] * 1e-3
        optimiser.step()
        steps[bool(lr_scale)] = {
            name: weight.detach() - start[name] for name, weight in model.named_parameters()
        }
    for part, factor in (("embedding", 1), ("encoder.layers.0", 0.1), ("encoder.layers.1", 2)):
        step, scaled = (steps[which][f"{part}.weight"] for which in (False, True))
        torch.testing.assert_close(scaled, factor * step, rtol=1e-3, atol=2e-7)


def test_a_part_ends_at_a_dot_and_a_tied_weight_has_all_its_names() -> None:
    model = Small()
    freeze(model, ["encoder", "output"])
    learns = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert learns == {"encoder_norm.weight", "encoder_norm.bias"}
    assert lr_scales(model, {"encoder_norm": 3.0}) == {
        model.encoder_norm.weight: 3.0,
        model.encoder_norm.bias: 3.0,
    }
    assert describe_groups(model, {"encoder_norm": 3.0}) == (
        "Of 8 weights, 6 are frozen and 2 learn at 3 × train.lr."
    )
    assert describe_groups(Small(), {}) is None


def test_a_part_that_is_not_there_is_refused_and_those_there_are_named() -> None:
    with pytest.raises(UserError, match=r"freeze: .* no part 'decoder'; its parts are embedding, "):
        freeze(Small(), ["decoder"])
    with pytest.raises(UserError, match=r"lr_scale: .* are encoder.layers.0, encoder.layers.1"):
        lr_scales(Small(), {"encoder.layers.7": 0.5})
    with pytest.raises(UserError, match="leaves no weight that learns"):
        freeze(Small(), ["embedding", "encoder", "encoder_norm", "output"])


def test_a_state_must_be_of_exactly_the_weights_that_are_trained() -> None:
    whole, part = Small(), Small()
    freeze(part, ["encoder"])
    states = {}
    for model in (whole, part):
        optimiser = make_optimiser(model, name="adam", lr=0.1)
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight) if weight.requires_grad else None
        optimiser.step()
        states[model] = optimiser_tensors(optimiser, model)
    restore_optimiser(make_optimiser(part, name="adam", lr=0.1), part, states[part])
    for model, other in ((part, whole), (whole, part)):
        with pytest.raises(ValueError, match="missing or unexpected"):
            restore_optimiser(make_optimiser(model, name="adam", lr=0.1), model, states[other])


def test_what_is_frozen_and_scaled_is_said_and_cannot_change_on_resume(tmp_path: Path) -> None:
    messages: list[str] = []
    trained(tmp_path / "run", "train.steps=1", say=messages.append)
    assert any("are frozen and" in message and "0.5 × train.lr" in message for message in messages)
    with pytest.raises(UserError, match=r"another train\.freeze"):
        trained(tmp_path / "run", "train.freeze=encoder", resume=True)
    with pytest.raises(UserError, match="the model has no part 'coder'"):
        trained(tmp_path / "other", "train.freeze=coder")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("scale", ["encoder", "encoder=", "=2", "encoder=0", "a=1, a=2", "a=nan"])
def test_a_factor_that_is_none_is_refused(scale: str) -> None:
    with pytest.raises(UserError, match="lr_scale"):
        config.load("sort", [f"train.lr_scale={scale}"])


def test_training_in_a_thread_gives_the_same_bits(tmp_path: Path) -> None:
    settings = config.load("sort", TINY)
    train(settings, tmp_path / "main")
    faults: list[BaseException] = []

    def work() -> None:
        try:
            train(settings, tmp_path / "thread")
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not faults
    bits = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("main", "thread")]
    assert bits[0] == bits[1]
