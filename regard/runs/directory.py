"""The files of a run directory: its configuration, its tokenizers, its metrics.

config.yaml         the resolved configuration
tokenizer.json      how text becomes ids (target_tokenizer.json where the target has its own,
                    labels.json for classes); their hashes stand in the weights' file
model.safetensors   the best weights
checkpoints/step-N/ weights, optimiser, progress, and a manifest of their hashes
metrics.jsonl       one line per evaluation
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from regard import config as configuration
from regard.config import Config
from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable
from regard.system.json_files import JsonError, parse_json
from regard.tasks import TASKS, Task


def is_run(path: Path) -> bool:
    file = path / "config.yaml"
    with saying_why_unreadable(file):
        return file.is_file()


def read_config(path: Path) -> Config:
    if not is_run(path):
        fault = "holds no run: config.yaml is missing" if path.is_dir() else "is no run directory"
        raise UserError(f"{path} {fault}. Train one with: regard train RECIPE --out {path}")
    file = path / "config.yaml"
    return configuration.validate(configuration.read_yaml(file), where=str(file))


def open_task(config: Config, path: Path) -> Task:
    """The task of a run, with the tokenizers that stand in its directory."""
    kind = TASKS[config.task]
    files = {}
    for name in kind.FILES:
        with saying_why_unreadable(path / name):
            present = (path / name).is_file()
        if present:
            files[name] = configuration.read_text(path / name)
    try:
        return kind.open(config, files)
    except ValueError as error:
        raise UserError(f"{path}: {error}.") from None


class MetricsLine(BaseModel):
    """A line of metrics.jsonl: one evaluation."""

    model_config = ConfigDict(extra="allow")

    step: int
    epoch: int = 0
    lr: int | float
    seconds: int | float = 0.0
    train: dict[str, int | float]
    valid: dict[str, int | float]
    best: bool = False
    averaged: list[int] = []


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a last one that a kill cut short is left out."""
    log = path / "metrics.jsonl"
    with saying_why_unreadable(log):
        if not log.exists():
            return []
        text = log.read_text(encoding="utf-8", errors="replace")
    *lines, _ = text.split("\n")  # after the last line end, nothing or a line cut short
    metrics: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            values: MetricsLine = parse_json(line, MetricsLine, where=f"{log}:{number}")
        except JsonError as error:
            raise UserError(f"{error}. Remove the line, or put a good copy back.") from None
        metrics.append(values.model_dump(exclude_unset=True))
    return metrics
