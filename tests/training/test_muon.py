"""Muon, compared with the singular value decomposition and with torch's own Muon."""

import pytest
import torch
from torch import nn

from regard.nn.stacked_linear import StackedLinear
from regard.training.muon import Muon, orthogonalised
from regard.training.optimisers import make_optimiser, optimiser_tensors, restore_optimiser


@pytest.mark.parametrize("shape", [(8, 8), (6, 24), (24, 6)])
def test_every_direction_of_a_matrix_becomes_about_as_long(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    for matrix, orthogonal in zip(matrices, orthogonalised(matrices), strict=True):
        left, lengths, right = torch.linalg.svd(matrix, full_matrices=False)
        assert lengths.max() / lengths.min() > 1.5
        between = left.T @ orthogonal @ right.T  # diagonal where the directions are still the same
        assert between.diagonal().min() > 0.5
        assert between.diagonal().max() < 1.3
        torch.testing.assert_close(between, between.diagonal().diag(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("exact", [True, False], ids=["in float32", "in bfloat16, as torch does"])
def test_steps_equal_those_of_torch(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if exact:
        monkeypatch.setattr(
            "torch.optim._muon._zeropower_via_newtonschulz",
            lambda gradient, *_: orthogonalised(gradient[None])[0],
        )
    start = torch.randn(6, 10, generator=torch.Generator().manual_seed(2))
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    group = {"params": [ours], "weight_decay": 0.1}
    optimisers = [
        Muon([group], heights={ours: (6,)}, lr=0.02),
        torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ]
    for step in range(5):
        gradient = torch.randn(6, 10, generator=torch.Generator().manual_seed(10 + step))
        for parameter, optimiser in zip((ours, theirs), optimisers, strict=True):
            parameter.grad = gradient.clone()
            optimiser.step()
    tolerance = 1e-6 if exact else 2e-3
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)
    assert (ours - start).abs().max() > 0.02


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stacked = StackedLinear(4, (4, 4, 4))
        self.table = nn.Embedding(5, 4)
        self.recurrent = nn.GRU(4, 4)


def step_of(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """What one step adds to each parameter, whose gradients are random."""
    generator = torch.Generator().manual_seed(3)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimiser.step()
    return {name: value.detach() - before[name] for name, value in model.named_parameters()}


def test_only_linear_maps_are_moved_so_and_stacked_ones_each_by_itself() -> None:
    torch.manual_seed(4)
    moved = {
        name: step_of(model, make_optimiser(model, name=name, lr=0.1))
        for name in ("muon", "adamw")
        for model in [Small()]
    }
    for name, step in moved["muon"].items():
        assert (name == "stacked.weight") == (not step.allclose(moved["adamw"][name]))
    for block in moved["muon"]["stacked.weight"].chunk(3):
        lengths = torch.linalg.svdvals(block) / (0.1 * 0.2 * 4**0.5)
        assert 0.5 < lengths.min() <= lengths.max() < 1.3


def test_a_stack_of_unequal_heights_moves_as_its_matrices_do_separately() -> None:
    heights, options = (8, 4, 4, 12), {"lr": 0.02}
    generator = torch.Generator().manual_seed(5)
    start = torch.randn(sum(heights), 6, generator=generator)
    stacked = nn.Parameter(start.clone())
    separate = [nn.Parameter(matrix.clone()) for matrix in start.split(heights)]
    one = Muon([{"params": [stacked], "weight_decay": 0.1}], heights={stacked: heights}, **options)
    many = Muon(
        [{"params": separate, "weight_decay": 0.1}],
        heights={matrix: (len(matrix),) for matrix in separate},
        **options,
    )
    for _ in range(3):
        stacked.grad = torch.randn(start.shape, generator=generator)
        for matrix, gradient in zip(separate, stacked.grad.split(heights), strict=True):
            matrix.grad = gradient.clone()
        one.step()
        many.step()
    torch.testing.assert_close(stacked.detach(), torch.cat(separate).detach(), atol=1e-6, rtol=0)
    assert (stacked - start).abs().max() > 0.02


def test_its_state_is_saved_and_restored_and_that_of_adam_refused() -> None:
    models = [Small(), Small()]
    first, second = (make_optimiser(model, name="muon", lr=0.1) for model in models)
    step_of(models[0], first)
    models[1].load_state_dict(models[0].state_dict())
    tensors = {name: value.clone() for name, value in optimiser_tensors(first, models[0]).items()}
    assert "stacked.weight/momentum_buffer" in tensors
    restore_optimiser(second, models[1], tensors)
    for one, other in zip(
        step_of(models[0], first).values(), step_of(models[1], second).values(), strict=True
    ):
        assert one.equal(other)
    with pytest.raises(ValueError, match="missing or unexpected"):
        restore_optimiser(make_optimiser(models[0], name="adamw", lr=0.1), models[0], tensors)
