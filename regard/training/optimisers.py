"""Adam and AdamW, fused, and Muon; their state as named tensors."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.stacked_linear import StackedLinear
from regard.training.muon import Muon


def make_optimiser(
    model: nn.Module, *, name: str, lr: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Adam(β 0.9 and 0.98, ε 1e-9) as in Vaswani et al. 2017, §5.3; AdamW decays matrices alone.

    Muon moves the matrices of linear maps, a classifier's last one among them; embeddings, the
    projection to a vocabulary, recurrent weights and all else are AdamW's.
    """
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},  # biases and norms have no size to keep down
    ]
    adam: dict[str, Any] = {"lr": lr, "betas": (0.9, 0.98), "eps": 1e-9, "fused": True}
    if name == "muon":
        heights = {
            module.weight: module.heights
            if isinstance(module, StackedLinear)
            else (module.out_features,)
            for module in model.modules()
            if isinstance(module, nn.Linear) and module.weight.requires_grad
        }
        return Muon(groups, heights=heights, **adam)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return kind(groups, **adam)


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Its state as `parameter/name` tensors, which safetensors can hold."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{key}": value
        for parameter, state in optimiser.state.items()
        for key, value in state.items()
    }


def restore_optimiser(
    optimiser: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]
) -> None:
    """Put back what `optimiser_tensors` took out; a ValueError if it is another model's."""
    parameters = dict(model.named_parameters())
    turned = optimiser.heights if isinstance(optimiser, Muon) else {}
    expected = {
        f"{name}/{key}"
        for name, parameter in parameters.items()
        for key in ([Muon.MOMENTUM] if parameter in turned else ["exp_avg", "exp_avg_sq", "step"])
    }
    if tensors and tensors.keys() != expected:
        raise ValueError(f"{len(tensors.keys() ^ expected)} tensors are missing or unexpected")
    for path, value in tensors.items():
        name, key = path.rsplit("/", 1)
        parameter = parameters[name]
        shape = torch.Size() if key == "step" else parameter.shape
        if value.shape != shape or value.dtype != torch.float32:
            raise ValueError(f"{path} is {tuple(value.shape)} of {value.dtype}")
        # The step count stays where the kernel keeps it; the moments go where the weights are.
        place = (
            value
            if key == "step" and parameter.device.type == "cpu"
            else value.to(parameter.device)
        )
        optimiser.state[parameter][key] = place
