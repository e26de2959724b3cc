"""Output: what a model gave for a source, with what was right."""

from typing import NamedTuple


class Output(NamedTuple):
    """A source, its target, and the output of a model."""

    source: str
    target: str
    output: str
