"""Older layouts of a configuration brought to the present one, one function per version."""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from regard.config.faults import shown
from regard.system.errors import UserError
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


def migrate(values: Values, *, where: str) -> Values:
    """A configuration of any known version, in the present layout; the given one is unchanged."""
    version = _version(values, where=where)
    if version == SCHEMA:
        return values
    migrated = deepcopy(values)
    while version in STEPS:
        migrated = STEPS[version](migrated)
        version += 1
    return migrated | {"schema_version": version}


def _version(values: Values, *, where: str) -> int:
    """The version of the layout, which must be one that is known here."""
    given = values.get("schema_version", SCHEMA)
    text = str(given) if type(given) in (int, float, str) else ""
    match = re.fullmatch(r"([0-9]{1,9})(\.[0-9]{1,9})?", text)
    if match and float(text) > SCHEMA:
        raise UserError(
            f"{where}: made by a newer Regard (schema {text}; this one reads up to {SCHEMA}). "
            f"Install the newer version to open it."
        )
    if not match or match[2] or int(text) < 1:
        raise UserError(
            f"{where}: schema_version={shown(given)} is no version of this file: it is a whole "
            f"number from 1 to {SCHEMA}, which Regard writes. Leave it out in a file of your own."
        )
    return int(text)
