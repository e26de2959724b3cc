"""Older layouts of a configuration brought to the present one, one function per version."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from regard.system.schema import SCHEMA

Values = dict[str, Any]


def _from_1_to_2(values: Values) -> Values:
    """Version 1 trained on the generator `sort` where no data was named; version 2 has no default.

    From version 2 on, a run need not have been trained: `train` and the splits may be absent.
    """
    data = values.setdefault("data", {})
    if isinstance(data, dict):
        for split in ("train", "valid", "test"):
            data.setdefault(split, "sort")
    return values


STEPS: dict[int, Callable[[Values], Values]] = {1: _from_1_to_2}
"""Each brings a configuration of its version to the next one."""


def migrate(values: Values) -> Values:
    """A configuration of any known version, in the present layout; the given one is unchanged."""
    version = values.get("schema_version", SCHEMA)
    if version not in STEPS:  # present, newer, or no version at all: validation says which
        return values
    migrated = deepcopy(values)
    while version in STEPS:
        migrated = STEPS[version](migrated)
        version += 1
    return migrated | {"schema_version": version}
