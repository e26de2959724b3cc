"""The files of a run directory: its configuration, its tokenizers, its metrics.

config.yaml         the resolved configuration
tokenizer.json      how text becomes ids (target_tokenizer.json where the target has its own,
                    labels.json for classes); their hashes stand in the weights' file
model.safetensors   the best weights
checkpoints/step-N/ weights, optimiser, progress, and a manifest of their hashes
metrics.jsonl       one line per evaluation
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from regard import config as configuration
from regard.config import Config
from regard.system.errors import UserError
from regard.tasks import TASKS, Task


def is_run(path: Path) -> bool:
    return (path / "config.yaml").is_file()


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
        if (path / name).is_file():
            files[name] = configuration.read_text(path / name)
    try:
        return kind.open(config, files)
    except ValueError as error:
        raise UserError(f"{path}: {error}.") from None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; one that a kill cut short is left out."""
    log = path / "metrics.jsonl"
    if not log.exists():
        return []
    lines = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and {"step", "lr", "train", "valid"} <= value.keys():
                lines.append(value)
    return lines
