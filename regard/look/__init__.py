"""What people would rather look at than read."""

from regard.look.pictures import draw

__all__ = ["draw"]
