"""Trace: what a model computed, kept under readable paths.

A trace is an argument that is passed down, never a hook. Each part passes its children a narrower
scope of it, and records what it computed:

    decoder.layers.2.cross_attention   weights (B H T S), mask, query, key, value, output

The same paths name what is to be turned off (`without`, see `Switches`).
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from regard.nn.switches import Switches

Record = dict[str, Tensor]
Axes = tuple[str, ...]
"""What each axis of a tensor counts: batch, head, width, or the tokens of that name."""

LETTERS = {"B": "batch", "H": "head", "K": "width", "D": "width", "V": "vocabulary", "C": "class"}
"""The notation's letters, but for T and S: those are tokens, whose name the model knows."""
USUAL = {0: "", 1: "B", 2: "BT", 3: "BTD", 4: "BHTD"}
"""The axes of a tensor that is recorded without any, by how many it has."""


class Trace:
    """Tensors by path and name; `trace["encoder.layers.0.self_attention"]["weights"]`.

    without: paths of what is turned off in this pass.
    """

    def __init__(self, *, without: Iterable[str] = ()) -> None:
        self.records: dict[str, Record] = {}
        self.axes: dict[str, dict[str, Axes]] = {}
        """The names of the axes of each record, by path and name."""
        self.tokens: dict[str, list[str]] = {}
        """The tokens along each axis: `source`, `target` (read) and `output` (predicted)."""
        self.path = ""
        self.rows = "source"
        """The tokens that the parts below have a row for: T."""
        self.memory = "source"
        """The tokens that cross-attention reads: S."""
        self.columns = ""
        """The tokens that an attention looks at, if they are not its rows."""
        self.first = 0
        """The place of the first row, where a model is run step by step."""
        self.switches = Switches(without)

    def at(self, name: str, *, rows: str = "", memory: str = "") -> "Trace":
        """The same trace, one level deeper; rows, memory: the tokens that the parts there read."""
        scope = self._same()
        scope.path = f"{self.path}.{name}" if self.path else name
        scope.rows, scope.memory = rows or self.rows, memory or self.memory
        return scope

    def over(self, columns: str, *, rows: str = "") -> "Trace":
        """The same place, where an attention of `rows` looks at the tokens `columns`."""
        scope = self._same()
        scope.path, scope.columns = self.path, columns
        scope.rows, scope.memory = rows or self.rows, self.memory
        return scope

    def step(self, number: int) -> "Trace":
        """A trace of one step of a model that is run step by step, for `join`."""
        scope = Trace()
        scope.switches, scope.first = self.switches, number
        return scope

    def _same(self) -> "Trace":
        scope = Trace()
        scope.records, scope.axes, scope.tokens = self.records, self.axes, self.tokens
        scope.switches, scope.first = self.switches, self.first
        return scope

    @property
    def off(self) -> bool:
        """Whether what is here is turned off."""
        return self.switches.off(self.path)

    def record(
        self, axes: Mapping[str, str] = MappingProxyType({}), /, **tensors: Tensor | None
    ) -> None:
        """Keep these tensors under the current path; None (no mask, for example) is left out.

        axes: the letters of a tensor's axes (B H T S K D V C), where they are not the usual ones.
        """
        names = LETTERS | {"T": self.rows, "S": self.columns or self.rows}
        for name, tensor in tensors.items():
            if tensor is None:
                continue
            letters = axes.get(name) or USUAL[tensor.dim()]
            letters = letters[len(letters) - tensor.dim() :]  # a mask may have the last ones alone
            self.records.setdefault(self.path, {})[name] = tensor.detach()
            self.axes.setdefault(self.path, {})[name] = tuple(names[letter] for letter in letters)

    def join(self, steps: list["Trace"]) -> None:
        """Concatenate the traces of single steps along time, the second to last axis."""
        for path in steps[0].records if steps else ():
            for name, axes in steps[0].axes[path].items():
                parts = [step[path][name] for step in steps]
                self.records.setdefault(path, {})[name] = torch.cat(parts, dim=-2)
                self.axes.setdefault(path, {})[name] = axes

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


def at(trace: Trace | None, name: str, *, rows: str = "", memory: str = "") -> Trace | None:
    """`trace.at(name)`, or None if nothing is traced."""
    return None if trace is None else trace.at(name, rows=rows, memory=memory)
