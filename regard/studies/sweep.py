"""Every combination of the values of some configuration keys, as cells of a comparison."""

import itertools
import re
from collections.abc import Sequence

from regard.runs.configuring import configure
from regard.studies.training import Cell
from regard.system.errors import UserError

MOST_CELLS = 1_000
UNSAFE = re.compile(r"[^\w.=,+-]+")
"""What stands in no name of a folder."""


def cells_of(recipe: str, settings: Sequence[str], *, fixed: Sequence[str] = ()) -> list[Cell]:
    """One cell for each combination; a setting with commas, as key=a,b,c, has several values.

    A value in quotes is one value, whatever is in it. fixed: settings as they are, for all cells.
    """
    choices = [_values(setting) for setting in settings]
    varied = [number for number, values in enumerate(choices) if len(values) > 1]
    if not varied:
        raise UserError(
            "There is nothing to compare: give a key several values, as in -s model.n_layers=1,2,4."
        )
    combinations = list(itertools.islice(itertools.product(*choices), MOST_CELLS + 1))
    if len(combinations) > MOST_CELLS:
        raise UserError(f"There are more than {MOST_CELLS:,} combinations to train.")
    cells = []
    for combination in combinations:
        name = ", ".join(_short(combination[number]) for number in varied)
        cells.append(Cell(UNSAFE.sub("_", name), configure(recipe, [*fixed, *combination])))
    names = [cell.name for cell in cells]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{twice!r} is there twice: give every value once.")
    return cells


def _values(setting: str) -> list[str]:
    """A setting for each of its values."""
    key, equals, text = setting.partition("=")
    if not equals or text.strip().startswith(("'", '"')):
        return [setting]
    return [f"{key.strip()}={value.strip()}" for value in text.split(",")]


def _short(setting: str) -> str:
    """n_layers=2, of model.n_layers=2."""
    key, _, value = setting.partition("=")
    return f"{key.rpartition('.')[2]}={value}"
