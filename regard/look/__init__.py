"""Pictures and reports of a run."""

from regard.look.pictures import draw

__all__ = ["draw"]
