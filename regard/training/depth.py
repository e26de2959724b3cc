"""How deep below the heads each weight stands, in a model that has an encoder as its `body`.

heads              0
pooler, last norm  1
block N … block 1  1 … N
embeddings         N + 1
"""

import re
from collections.abc import Collection

from torch import nn

from regard.system.errors import UserError

BLOCK = re.compile(r"body\.encoder\.layers\.(\d+)\.")


def depths(model: nn.Module, *, key: str) -> dict[str, int]:
    """The depth of every weight under every name that it has; a shared one has its largest.

    key: the key of the configuration that asks, to be named where a model has no such body.
    """
    weights = dict(model.named_parameters(remove_duplicate=False))
    blocks = _blocks(weights)
    if not blocks:
        raise UserError(
            f"{key} is for models that have blocks as their body, such as model.kind=bert in "
            f"task=classify: this one has none."
        )
    largest: dict[nn.Parameter, int] = {}
    for name, weight in weights.items():
        largest[weight] = max(largest.get(weight, 0), _depth(name, blocks))
    return {name: largest[weight] for name, weight in weights.items()}


def begun_anew(model: nn.Module, layers: int) -> set[str]:
    """The weights of the top blocks of the body, and of what stands on them there.

    Zhang et al. 2021 (Revisiting Few-sample BERT Fine-tuning, §4): the top layers of an encoder
    know most about what it was pre-trained on, and least of use to another task.
    """
    if not layers:
        return set()
    depth = depths(model, key="train.reinit_layers")
    blocks = max(depth.values()) - 1
    if layers > blocks:
        raise UserError(f"train.reinit_layers={layers} is more than the {blocks} blocks there are.")
    return {name for name, below in depth.items() if 1 <= below <= layers}


def _blocks(names: Collection[str]) -> int:
    numbers = [int(found[1]) for name in names if (found := BLOCK.match(name))]
    return 1 + max(numbers, default=-1)


def _depth(name: str, blocks: int) -> int:
    if not name.startswith("body."):
        return 0
    if name.startswith("body.embedding."):
        return blocks + 1
    block = BLOCK.match(name)
    return blocks - int(block[1]) if block else 1
