"""Stack: blocks one after another."""

from collections.abc import Iterable, Sequence
from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.nn.block import Block
from regard.nn.cache import KVCache, LayerCache
from regard.nn.norms import Norm
from regard.nn.trace import Trace, at


class Stack(nn.Module):
    """final_norm(block_N(… block₁(x))): an encoder, a decoder, or the body of GPT or BERT.

    Blocks that norm before their sub-layers leave their sum without a norm: final_norm closes it.
    """

    def __init__(self, layers: Iterable[Block], *, final_norm: Norm | None = None) -> None:
        super().__init__()
        self.layers = cast("Sequence[Block]", nn.ModuleList(layers))
        self.final_norm = final_norm

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        positions: Int[Tensor, "#B T"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: list[LayerCache] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Every block gets the same memory, masks and positions, and its own cache."""
        for number, layer in enumerate(self.layers):
            scope = at(trace, f"layers.{number}")
            if scope is not None and scope.off:
                continue
            x = layer(
                x,
                memory,
                mask=mask,
                is_causal=is_causal,
                positions=positions,
                memory_mask=memory_mask,
                cache=None if caches is None else caches[number],
                trace=scope,
            )
        return x if self.final_norm is None else self.final_norm(x, trace=at(trace, "final_norm"))

    def new_caches(self, memory: Float[Tensor, "B S D"] | None = None) -> list[LayerCache]:
        """A cache for every block: an empty past, and the block's keys and values of the memory."""
        caches = []
        for layer in self.layers:
            cross = layer.cross_attention
            reads = None if cross is None or memory is None else cross.remember(memory)
            caches.append(LayerCache(KVCache(), reads))
        return caches
