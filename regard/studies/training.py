"""One training of a comparison: done once, measured, and read again when it is asked for again."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.config import Config
from regard.runs.changes import changes, in_words
from regard.runs.directory import is_run
from regard.runs.run import Run
from regard.runs.trainer import train
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.files import remove_whole, write_text
from regard.system.json_files import JsonError, read_json
from regard.training.loop import Stop

Say = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """A configuration to train, under a name that is that of its run directory too."""

    name: str
    config: Config


@dataclass(frozen=True)
class Trained:
    """What a cell came to."""

    name: str
    metric: str
    value: float
    """The metric on the test data, of the run's best weights."""
    minutes: float
    """Of training alone."""
    parameters: int
    curve: list[tuple[int, float]]
    """The metric on the validation data, by step."""
    config: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "config"}


def train_cell(
    cell: Cell,
    out: Path,
    *,
    metric: str,
    keep: bool = True,
    engine: Engine | None = None,
    say: Say = print,
) -> Trained | Stop:
    """Train a cell into out/NAME, or go on with it; out/NAME.json is what it came to.

    metric: what is measured. keep: the run directory stays. A signal stops it: why it stopped.
    """
    earlier = trained_before(cell, out)
    if earlier is not None:
        return earlier
    folder = out / cell.name
    run, stop = train(cell.config, folder, resume=is_run(folder), engine=engine, say=say)
    if stop is not None and stop.signal is not None:
        return stop
    result = _measured(cell, run, metric)
    write_text(_result_file(cell, out), json.dumps(asdict(result)))
    if not keep:
        remove_whole(folder)
    return result


def trained_before(cell: Cell, out: Path) -> Trained | None:
    """What a cell came to, if it is done; refused if it was trained with another configuration."""
    path = _result_file(cell, out)
    if not path.exists():
        return None
    try:
        result: Trained = read_json(path, Trained)
    except JsonError as error:
        raise UserError(f"{error}. Remove it to train this once more.") from None
    made = changes(result.config, cell.config.model_dump())
    if made:
        raise UserError(
            f"{path} is of another configuration: {in_words(made)}. Name another --out, or remove "
            f"it."
        )
    return result


def _result_file(cell: Cell, out: Path) -> Path:
    return out / f"{cell.name}.json"


def _measured(cell: Cell, run: Run, metric: str) -> Trained:
    evaluation = run.task.evaluate(run.model, "test", engine=run.engine, metrics=[metric])
    lines = [line for line in run.metrics() if "averaged" not in line]
    return Trained(
        cell.name,
        metric,
        evaluation.metrics[metric],
        lines[-1]["seconds"] / 60,
        sum(weight.numel() for weight in run.model.parameters()),
        [(line["step"], line["valid"][metric]) for line in lines if metric in line["valid"]],
        cell.config.model_dump(),
    )
