"""Trace: what a model computed, kept under readable paths.

A trace is an argument that is passed down, never a hook. Each part passes its children a narrower
scope of it, and records what it computed:

    decoder.layers.2.cross_attention   weights (B H T S), mask, query, key, value, output
"""

from collections.abc import Iterator

import torch
from torch import Tensor

Record = dict[str, Tensor]


class Trace:
    """Tensors by path and name; `trace["encoder.layers.0.self_attention"]["weights"]`."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.tokens: dict[str, list[str]] = {}
        """The tokens along each axis: `source`, `target` (read) and `output` (predicted)."""
        self.path = ""

    def at(self, name: str) -> "Trace":
        """The same trace, one level deeper."""
        scope = Trace()
        scope.records, scope.tokens = self.records, self.tokens
        scope.path = f"{self.path}.{name}" if self.path else name
        return scope

    def record(self, **tensors: Tensor | None) -> None:
        """Keep these tensors under the current path; None (no mask, for example) is left out."""
        record = self.records.setdefault(self.path, {})
        record.update(
            {name: tensor.detach() for name, tensor in tensors.items() if tensor is not None}
        )

    def join(self, steps: list["Trace"]) -> None:
        """Concatenate the traces of single steps along time, the second to last axis."""
        for path in steps[0].records if steps else ():
            scope = self.at(path)
            for name in steps[0][path]:
                scope.record(**{name: torch.cat([step[path][name] for step in steps], dim=-2)})

    def __getitem__(self, path: str) -> Record:
        if path not in self.records:
            raise KeyError(f"{path!r} was not traced; the paths are: {', '.join(self.records)}")
        return self.records[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def attention(self) -> dict[str, Tensor]:
        """The attention weights (B H T S) of every part that attends, by path."""
        return {
            path: record["weights"] for path, record in self.records.items() if "weights" in record
        }

    def masks(self) -> dict[str, Tensor]:
        """The masks (broadcastable to B H T S, True = may attend) that were applied, by path."""
        return {path: record["mask"] for path, record in self.records.items() if "mask" in record}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of everything recorded, as `path.name`, in the order of computation."""
        return {
            f"{path}.{name}": tuple(tensor.shape)
            for path, record in self.records.items()
            for name, tensor in record.items()
        }


def at(trace: Trace | None, name: str) -> Trace | None:
    """`trace.at(name)`, or None if nothing is traced."""
    return None if trace is None else trace.at(name)
