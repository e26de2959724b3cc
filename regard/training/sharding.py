"""Sharded training (FSDP2): every rank keeps a part of the weights, gradients and optimiser state.

Before a block computes, its weights are gathered from all ranks, and let go afterwards; gradients
are added up over ranks, and each rank is left with its part of the sum (Rajbhandari et al. 2020,
ZeRO stage 3; torch's `fully_shard`).
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.nn.block import Block

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


def shard(model: nn.Module, device: torch.device) -> None:
    """Divide the weights of a model among all ranks, in place: block by block, then the rest.

    A tied weight has its uses outside of the blocks, so they are gathered together.
    """
    from torch.distributed import get_world_size
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (get_world_size(),))
    for module in [*_blocks(model), model]:
        fully_shard(module, mesh=mesh)
    for part in _sharded(model):
        # Sums over ranks: a loss is divided once, by the count of all ranks. FSDP2 would divide
        # the sum by the number of ranks.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
        part.set_reduce_scatter_unused_params(True)


@contextlib.contextmanager
def unsharded(model: nn.Module) -> Iterator[None]:
    """Within it every rank has all weights, and computes without the others; never in training.

    Ranks evaluate different numbers of batches, and generate outputs of different lengths: they
    could not meet at each block.
    """
    parts = _sharded(model)
    for part in parts:
        part.unshard()
    blocks = [part for part in parts if isinstance(part, Block)]
    for block in blocks:
        block.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
        for block in blocks:
            block.set_reshard_after_forward(True, recurse=False)


def _blocks(model: nn.Module) -> list[Block]:
    return [module for module in model.modules() if isinstance(module, Block)]


def _sharded(model: nn.Module) -> "list[FSDPModule]":
    """The parts whose weights are gathered together."""
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]
