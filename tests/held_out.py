"""Fewer held-out examples of generators than there are: what trains for a few steps is scored soon.

Reading and scoring 500 and 2,000 of them took most of the time of a short training. Tests that
are about these numbers use the fixture `all_held_out`.
"""

from regard.data.generators import HELD_OUT

ALL = dict(HELD_OUT)


def hold_out_few() -> None:
    """In this process, and in its forks."""
    HELD_OUT.update(valid=60, test=120)
