"""The tree of a search: every candidate that it considered, as data and as a drawing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from regard.decoding.hypothesis import Hypothesis, Place
from regard.decoding.step import Step

Fate = Literal["kept", "finished", "pruned"]


@dataclass(frozen=True)
class Node:
    """A candidate: a hypothesis and one token more."""

    parent: int | None
    """The number of the node that it extends; None for a first token."""
    source: int
    token: int
    log_probability: float
    """Σ log p of all tokens up to this one."""
    fate: Fate
    """Whether the search went on with it, finished it or gave it up."""


class Tree:
    """Reads along with a search and keeps its tree; of greedy search, it is a single branch.

    tree = Tree()
    hypotheses = collect(tree.watch(search(…)))
    print(tree.draw(0, name))
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        """Parents come before their children."""
        self._numbers: dict[Place, int] = {}

    def watch(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The same steps."""
        for step in steps:
            self._add(step)
            yield step

    def _add(self, step: Step) -> None:
        fates: dict[int, Fate] = dict.fromkeys(step.kept.tolist(), "kept")
        fates |= dict.fromkeys(step.finished.tolist(), "finished")
        candidates = zip(
            step.parents.tolist(),
            step.sources[step.rows].tolist(),
            step.tokens.tolist(),
            step.log_probabilities.tolist(),
            strict=True,
        )
        for candidate, (parent, source, token, log_probability) in enumerate(candidates):
            if log_probability == -torch.inf:
                continue  # a place in the beam that nothing filled
            self._numbers[step.length - 1, candidate] = len(self.nodes)
            self.nodes.append(
                Node(
                    self._numbers.get((step.length - 2, parent)),
                    source,
                    token,
                    log_probability,
                    fates.get(candidate, "pruned"),
                )
            )

    def path(self, hypothesis: Hypothesis) -> list[Node]:
        """The nodes from the first token of a hypothesis to its last, `</s>` included."""
        path = []
        number: int | None = self._numbers[hypothesis.place]
        while number is not None:
            path.append(self.nodes[number])
            number = self.nodes[number].parent
        return path[::-1]

    def draw(self, source: int, name: Callable[[int], str] = str) -> str:
        """The tree of a source in plain text: each token with the log-probability up to it.

            ├─ the -0.21
            │  ├─ cat -0.94 → </s> -1.02 finished
            │  └─ dog -1.90 pruned
            └─ a -1.73 pruned

        Tokens that are the only continuation of what is before them stand on its line.
        """
        children: dict[int | None, list[int]] = {}
        for number, node in enumerate(self.nodes):
            if node.source == source:
                children.setdefault(node.parent, []).append(number)
        for numbers in children.values():
            numbers.sort(key=lambda number: -self.nodes[number].log_probability)
        lines = []
        waiting = _branches(children.get(None, []), "")
        while waiting:
            number, branch, indent = waiting.pop()
            labels = [self._label(number, name)]
            while len(children.get(number, [])) == 1:
                number = children[number][0]
                labels.append(self._label(number, name))
            lines.append(branch + " → ".join(labels))
            waiting += _branches(children.get(number, []), indent)
        return "\n".join(lines)

    def _label(self, number: int, name: Callable[[int], str]) -> str:
        node = self.nodes[number]
        label = f"{name(node.token)} {node.log_probability:.2f}"
        return label if node.fate == "kept" else f"{label} {node.fate}"


def _branches(numbers: list[int], indent: str) -> list[tuple[int, str, str]]:
    """(node, what its line begins with, what the lines below it begin with), the first one last."""
    last = len(numbers) - 1
    return [
        (
            number,
            indent + ("└─ " if place == last else "├─ "),
            indent + ("   " if place == last else "│  "),
        )
        for place, number in enumerate(numbers)
    ][::-1]
