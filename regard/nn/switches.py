"""Switches: parts of a model that are turned off for one pass, by the paths of its trace.

    encoder.layers.1                               a layer hands on what it was given
    encoder.layers.1.self_attention                a sub-layer adds nothing to its residual
    encoder.layers.1.self_attention.heads.3        one head adds nothing
    encoder.layers.1.self_attention.edges.4.2      position 4 does not look at position 2
    encoder.layers.1.self_attention.heads.3.edges.4.2    the same in one head alone

All numbers begin at 0. Attention that loses an edge is shared out among those that are left.
"""

import re
from collections.abc import Iterable

import torch
from jaxtyping import Bool
from torch import Tensor

HEAD = re.compile(r"heads\.(\d+)")
EDGE = re.compile(r"(?:heads\.(\d+)\.)?edges\.(\d+)\.(\d+)")


class Switches:
    """What is turned off, and which of it the model has."""

    def __init__(self, without: Iterable[str] = ()) -> None:
        self.names = dict.fromkeys(without)
        self._met: set[str] = set()

    def off(self, path: str) -> bool:
        """Whether a layer, a sub-layer or an attention is turned off as a whole."""
        if path not in self.names:
            return False
        self._met.add(path)
        return True

    def heads(self, path: str, count: int) -> list[int]:
        """The heads of an attention that are turned off."""
        found = [(name, HEAD.fullmatch(rest)) for name, rest in self._below(path)]
        numbers = {name: int(match[1]) for name, match in found if match and int(match[1]) < count}
        self._met.update(numbers)
        return list(numbers.values())

    def edges(
        self, path: str, *, heads: int, queries: int, keys: int, first: int = 0
    ) -> Bool[Tensor, "H T S"] | None:
        """False where an edge is turned off; None if none is. first: the place of the first query.

        An edge that is met at another place of a step-by-step model is left to its own step.
        """
        kept = None
        for name, rest in self._below(path):
            match = EDGE.fullmatch(rest)
            if match is None:
                continue
            head = None if match[1] is None else int(match[1])
            query, key = int(match[2]) - first, int(match[3])
            if not 0 <= query < queries or key >= keys or (head or 0) >= heads:
                continue
            if kept is None:
                kept = torch.ones(heads, queries, keys, dtype=torch.bool)
            kept[slice(None) if head is None else head, query, key] = False
            self._met.add(name)
        return kept

    def _below(self, path: str) -> list[tuple[str, str]]:
        begin = f"{path}."
        return [(name, name.removeprefix(begin)) for name in self.names if name.startswith(begin)]

    @property
    def unmet(self) -> list[str]:
        """Names that nothing in the model answered to."""
        return [name for name in self.names if name not in self._met]
