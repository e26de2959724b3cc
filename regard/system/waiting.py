"""How the threads of one operation wait for each other; set before torch is loaded."""

import os

POLICY = {"OMP_WAIT_POLICY": "passive"}
"""Threads sleep at a barrier. By default they spin there, each on a core of its own.

On cores that other processes use too, a spinning thread waits for one that is not running, and
keeps it from running: training then slows down by a factor of ten and more. benchmarks/busy.py
measures this policy beside others.
"""

CHOSEN_BY_USER = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables by which a person decides it; then nothing is changed."""


def wait_asleep() -> None:
    """Set the policy for this process and its children, unless the user has set one."""
    if not any(name in os.environ for name in CHOSEN_BY_USER):
        os.environ.update(POLICY)
