"""Schedules: pure functions of the step, by hand."""

import pytest
import torch

from regard.training.optimisers import make_optimiser
from regard.training.schedules import make_schedule


def schedule(name: str, **options):
    return make_schedule(name, **({"lr": 2.0, "warmup": 10, "steps": 110, "d_model": 64} | options))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", {1: 0.2, 5: 1.0, 10: 2.0, 110: 2.0}),
        ("inverse-sqrt", {1: 0.2, 10: 2.0, 40: 1.0, 90: 2 / 3}),
        ("noam", {1: 2 / 8 / 10**1.5, 10: 2 / 8 / 10**0.5, 40: 2 / 8 / 40**0.5}),
        ("linear", {1: 0.2, 10: 2.0, 60: 1.0, 110: 0.0, 120: 0.0}),
        ("cosine", {1: 0.2, 10: 2.0, 60: 1.0, 110: 0.0, 120: 0.0}),
    ],
)
def test_learning_rate_by_hand(name: str, expected: dict[int, float]) -> None:
    rate = schedule(name)
    for step, value in expected.items():
        assert rate(step) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("name", ["constant", "inverse-sqrt", "noam", "linear", "cosine"])
def test_no_warmup_starts_at_once(name: str) -> None:
    rate = schedule(name, warmup=0)
    assert rate(1) > 0
    assert rate(2) <= rate(1)


def test_a_cycle_begins_as_if_there_were_no_other_and_the_next_at_the_top() -> None:
    rate, alone = schedule("cosine", steps=220, cycles=2), schedule("cosine")
    assert [rate(step) for step in range(1, 111)] == [alone(step) for step in range(1, 111)]
    for step, value in {111: 2.0, 165: 1.0, 220: 0.0, 230: 0.0}.items():
        assert rate(step) == pytest.approx(value, abs=1e-3)


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="'zigzag' is not one of"):
        schedule("zigzag")


def test_adam_has_the_paper_s_settings_and_adamw_decays_matrices_alone() -> None:
    model = torch.nn.Linear(3, 2)
    adam = make_optimiser(model, name="adam", lr=0.1)
    assert isinstance(adam, torch.optim.Adam)
    assert adam.defaults["betas"] == (0.9, 0.98)
    assert adam.defaults["eps"] == 1e-9
    assert adam.defaults["fused"]
    adamw = make_optimiser(model, name="adamw", lr=0.1, weight_decay=0.5)
    assert isinstance(adamw, torch.optim.AdamW)
    decays = {id(p): group["weight_decay"] for group in adamw.param_groups for p in group["params"]}
    assert decays == {id(model.weight): 0.5, id(model.bias): 0.0}
