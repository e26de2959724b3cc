"""Adam and AdamW, fused, and Muon; their state as named tensors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.stacked_linear import StackedLinear
from regard.system.shards import part_of
from regard.training.groups import lr_scales
from regard.training.muon import Muon


def make_optimiser(
    model: nn.Module,
    *,
    name: str,
    lr: float,
    weight_decay: float = 0.0,
    lr_scale: Mapping[str, float] | None = None,
    layer_decay: float = 1.0,
) -> torch.optim.Optimizer:
    """Adam(β 0.9 and 0.98, ε 1e-9) as in Vaswani et al. 2017, §5.3; AdamW decays matrices alone.

    Frozen weights are left out. The groups have an `lr_scale`, by which the loop multiplies the
    learning rate of the schedule: lr_scale gives it for parts of the model, and it is 1 elsewhere;
    layer_decay multiplies it, once for every layer below the heads.

    Muon moves the matrices of linear maps, a classifier's last one among them; embeddings, the
    projection to a vocabulary, recurrent weights and all else are AdamW's.
    """
    scales = lr_scales(model, lr_scale or {}, layer_decay=layer_decay)
    groups = []
    for scale in sorted(set(scales.values())):
        weights = [weight for weight in scales if scales[weight] == scale]
        matrices = [weight for weight in weights if weight.dim() >= 2]
        vectors = [weight for weight in weights if weight.dim() < 2]
        groups += [
            {"params": matrices, "weight_decay": weight_decay, "lr_scale": scale},
            {"params": vectors, "weight_decay": 0.0, "lr_scale": scale},  # biases and norms
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
    """The state of an optimiser as `parameter/name` tensors, which safetensors can hold."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{key}": value
        for parameter, state in optimiser.state.items()
        for key, value in state.items()
    }


def restore_optimiser(
    optimiser: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]
) -> None:
    """Put back what `optimiser_tensors` returned; a ValueError if it is another model's.

    There must be a state for each weight that is trained, and for no other.
    """
    trained = {weight for group in optimiser.param_groups for weight in group["params"]}
    parameters = {name: weight for name, weight in model.named_parameters() if weight in trained}
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
        optimiser.state[parameter][key] = place if key == "step" else part_of(place, parameter)
