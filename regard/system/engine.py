"""Where and how the numbers are computed: device, precision, compilation, memory."""

import contextlib
import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import nn

from regard.system.errors import UserError

Precision = Literal["fp32", "bf16"]

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Engine:
    """How to run a model; none of this changes what is learned, up to rounding.

    The exception is dropout: its random numbers differ between devices, and in shares.
    """

    device: torch.device = CPU
    precision: Precision = "fp32"
    compiled: bool = False
    sharded: bool = False
    """Whether the ranks divide weights, gradients and optimiser state among them (FSDP2)."""

    def __str__(self) -> str:
        options = {"compiled": self.compiled, "sharded": self.sharded}
        chosen = [name for name, given in options.items() if given]
        return ", ".join([self.device.type, self.precision, *chosen])

    @property
    def threads(self) -> int:
        """How many threads a sum may be divided among, which decides its rounding; 0 on a GPU."""
        return torch.get_num_threads() if self.device.type == "cpu" else 0

    @property
    def shares_out(self) -> bool:
        """Whether the shares of a batch can be computed side by side in threads."""
        return self.device.type == "cpu" and not self.compiled and not self.sharded

    def autocast(self, *, cached: bool = True) -> AbstractContextManager[Any]:
        """Matrix products in bfloat16 if the precision is bf16; weights and sums stay float32.

        cached: a weight that is used often is cast once. The cache is shared by all threads, and
        the first to leave empties it: threads that compute side by side do without.
        """
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=cached)

    def callable(self, model: nn.Module) -> nn.Module:
        """The model as it is called in training: itself, or compiled for batches of any shape."""
        if not self.compiled:
            return model
        # With torch's own random numbers, so that dropout is the same as without compiling.
        compiled = torch.compile(model, dynamic=True, options={"fallback_random": True})
        return cast(nn.Module, compiled)


def make_engine(
    *,
    device: str = "auto",
    precision: Precision = "fp32",
    compiled: bool = False,
    sharded: bool = False,
) -> Engine:
    """An engine on this device, or one sentence on why there is none."""
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if device not in ("auto", *present):
        raise UserError(f"device={device!r} is not one of auto, {', '.join(present)}.")
    if device == "auto":
        device = "cuda" if present["cuda"] else "mps" if present["mps"] else "cpu"
    if not present[device]:
        raise UserError(
            f"--device {device}: this machine has none that torch can use; "
            f"there is {', '.join(name for name in present if present[name])}."
        )
    if compiled and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++", "cl"))):
        raise UserError("--compile needs a C++ compiler, such as g++, and there is none here.")
    if compiled and sharded:
        raise UserError("--compile and --shard do not work together: leave one of them out.")
    return Engine(torch.device(device), precision, compiled, sharded)
