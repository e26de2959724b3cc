"""Which weights learn, and how fast: frozen parts, and factors on the learning rate.

A part is a prefix of weight names that ends at a dot: `encoder` has `encoder.layers.0.…`, and not
`encoder_norm.weight`. A weight that two parts share, such as a tied embedding, has both names.
"""

from collections.abc import Collection, Mapping

from torch import nn

from regard.system.errors import UserError
from regard.training.depth import depths


def freeze(model: nn.Module, parts: Collection[str]) -> None:
    """Weights of these parts do not learn: they need no gradient and no state of the optimiser."""
    _check_parts(model, parts, key="train.freeze")
    for parameter, names in _names(model).items():
        if any(_is_in(name, part) for name in names for part in parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError(f"train.freeze={', '.join(parts)} leaves no weight that learns.")


def lr_scales(
    model: nn.Module, scales: Mapping[str, float], *, layer_decay: float = 1.0
) -> dict[nn.Parameter, float]:
    """The factor on the learning rate of every weight that learns: its longest part's, or 1.

    It is multiplied by layer_decay ^ depth, the depth counted from the heads (Howard & Ruder 2018,
    §3.2; Clark et al. 2020, appendix B).
    """
    _check_parts(model, scales, key="train.lr_scale")
    depth = depths(model, key="train.layer_decay") if layer_decay != 1.0 else {}
    factors = {}
    for parameter, names in _names(model).items():
        parts = [part for part in scales if any(_is_in(name, part) for name in names)]
        if parameter.requires_grad:
            scale = scales[max(parts, key=len)] if parts else 1.0
            factors[parameter] = scale * layer_decay ** depth.get(names[0], 0)
    return factors


def describe_groups(
    model: nn.Module, scales: Mapping[str, float], *, layer_decay: float = 1.0
) -> str | None:
    """One sentence on what is frozen and what learns at another rate; None if nothing is."""
    factors = lr_scales(model, scales, layer_decay=layer_decay)
    weights = list(model.parameters())
    clauses = [
        f"{sum(value == factor for value in factors.values())} learn at {factor:g} × train.lr"
        for factor in dict.fromkeys(factors.values())
        if factor != 1
    ]
    if len(factors) < len(weights):
        clauses.insert(0, f"{len(weights) - len(factors)} are frozen")
    return f"Of {len(weights)} weights, {' and '.join(clauses)}." if clauses else None


def _names(model: nn.Module) -> dict[nn.Parameter, list[str]]:
    """Every weight with all its names: a tied one has several."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return names


def _is_in(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _check_parts(model: nn.Module, parts: Collection[str], *, key: str) -> None:
    """Refuse a part that the model does not have, and name those that it has at that place."""
    names = [name for names in _names(model).values() for name in names]
    for part in parts:
        if any(_is_in(name, part) for name in names):
            continue
        above = part.split(".")[:-1]
        while above and not any(_is_in(name, ".".join(above)) for name in names):
            above.pop()
        inside = [name.split(".") for name in names if name.split(".")[: len(above)] == above]
        known = dict.fromkeys(".".join(words[: len(above) + 1]) for words in inside)
        raise UserError(f"{key}: the model has no part {part!r}; its parts are {', '.join(known)}.")
