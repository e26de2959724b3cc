"""Regard: sequence models that you can look into.

run, _ = regard.train(regard.config.load("sort"), "runs/sort")
run = regard.load("runs/sort")
run.predict(["3 1 2"])       # ["1 2 3"]
run.trace("3 1 2")           # attention, masks and shapes by readable path
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.runs.run import Run as Run
    from regard.runs.run import load as load
    from regard.runs.trainer import train as train

PLACES = {"Run": "regard.runs.run", "load": "regard.runs.run", "train": "regard.runs.trainer"}
"""Where each name of the package stands."""

__all__ = ["Run", "load", "train"]


def __getattr__(name: str) -> Any:
    """A name brings in torch only when it is used: `regard --help` answers at once."""
    if name not in PLACES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(importlib.import_module(PLACES[name]), name)
