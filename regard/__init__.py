"""Regard: sequence models that you can look into.

run = regard.load("runs/sort")
run.predict(["3 1 2"])       # ["1 2 3"]
run.trace("3 1 2")           # attention, masks and shapes by readable path
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.runs.run import Run as Run
    from regard.runs.run import load as load

__all__ = ["Run", "load"]


def __getattr__(name: str) -> Any:
    """`regard.load` brings in torch only when it is used: `regard --help` answers at once."""
    if name not in __all__:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    from regard.runs import run

    return getattr(run, name)
