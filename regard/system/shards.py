"""Tensors of which every rank holds a part, and their way from and to whole ones."""

from typing import Any, cast

from torch import Tensor

from regard.system.ranks import World


def is_shard(tensor: Tensor) -> bool:
    """Whether a tensor is one rank's part of a larger one (torch's DTensor)."""
    return hasattr(tensor, "device_mesh")


def whole(tensor: Tensor) -> Tensor:
    """The tensor that all parts make together; every rank must ask for it."""
    return cast(Any, tensor).full_tensor() if is_shard(tensor) else tensor


def part_of(value: Tensor, like: Tensor) -> Tensor:
    """The part of a whole tensor that this rank holds of one that is divided like `like`."""
    if not is_shard(like) or is_shard(value):
        return value
    from torch.distributed.tensor import distribute_tensor

    divided = cast(Any, like)
    return distribute_tensor(
        value.to(like.device), divided.device_mesh, divided.placements, src_data_rank=None
    )


def gathered(tensors: dict[str, Tensor], world: World) -> dict[str, Tensor]:
    """Whole tensors, for the rank that writes; none on the others, which need no memory for them.

    One at a time, and to the memory of the CPU: sharded tensors together may be too large.
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        value = whole(tensor).cpu() if is_shard(tensor) else tensor
        if world.writes:
            result[name] = value
    return result
