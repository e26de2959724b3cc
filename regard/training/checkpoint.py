"""Checkpoints: everything that a run needs to go on to the same bits."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.system.errors import UserError
from regard.system.files import saying_what_failed, sha256, write_json, writing
from regard.system.tensors import read_tensors, read_weights, weights, write_tensors
from regard.training.optimisers import optimiser_tensors, restore_optimiser

MANIFEST = "manifest.json"
FILES = ("model.safetensors", "optimizer.safetensors", "progress.json")
"""The files of every checkpoint; its manifest lists whatever else there is."""

Extra = dict[str, dict[str, Tensor]]
"""More tensors that a run needs, by name; each name is a file."""


def save_checkpoint(
    directory: Path,
    step: int,
    *,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    extra: Extra,
    progress: dict[str, Any],
    metadata: dict[str, str],
    keep: int,
) -> None:
    """Write `directory/step-N`, and only then remove all but the newest `keep`."""
    with saying_what_failed(directory):
        directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"step-{step}"
    if target.exists():
        return  # the same step of the same run has the same bits
    with writing(target) as aside:
        aside.mkdir()
        write_tensors(aside / "model.safetensors", weights(model), metadata=metadata)
        write_tensors(aside / "optimizer.safetensors", optimiser_tensors(optimiser, model))
        for name, tensors in extra.items():
            write_tensors(aside / f"{name}.safetensors", tensors)
        write_json(aside / "progress.json", progress)
        write_json(aside / MANIFEST, {path.name: sha256(path) for path in sorted(aside.iterdir())})
    for old in sorted(saved_steps(directory))[:-keep]:
        shutil.rmtree(directory / f"step-{old}", ignore_errors=True)


def saved_steps(directory: Path) -> list[int]:
    """The steps that have a checkpoint here."""
    matches = (re.fullmatch(r"step-(\d+)", path.name) for path in directory.glob("step-*"))
    return [int(match[1]) for match in matches if match]


def load_checkpoint(
    directory: Path,
    *,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    metadata: dict[str, str],
) -> tuple[dict[str, Any], Extra]:
    """Put the newest checkpoint into model and optimiser; its progress and extra tensors."""
    steps = sorted(saved_steps(directory))
    if not steps:
        raise UserError(
            f"There is no checkpoint in {directory} to resume from. Train into another --out, or "
            f"remove the run and train it again."
        )
    newest = directory / f"step-{steps[-1]}"
    names = _checked(newest, earlier=steps[:-1])
    read_weights(newest / "model.safetensors", model, metadata=metadata)
    state, _ = read_tensors(newest / "optimizer.safetensors")
    try:
        if steps[-1] and not state:
            raise ValueError("it is empty")
        restore_optimiser(optimiser, model, state)
    except ValueError as error:
        raise UserError(f"{newest / 'optimizer.safetensors'} does not fit: {error}.") from None
    extra = {Path(name).stem: read_tensors(newest / name)[0] for name in names if name not in FILES}
    return json.loads((newest / "progress.json").read_text(encoding="utf-8")), extra


def _checked(checkpoint: Path, *, earlier: list[int]) -> list[str]:
    """The files of a checkpoint, if the hash of each is the one that its manifest has."""
    names: list[str] = []
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        names = [*FILES, *sorted(manifest.keys() - set(FILES))]
        faulty = [name for name in names if not (checkpoint / name).is_file()]
        faulty += [
            name for name in names if not faulty and sha256(checkpoint / name) != manifest[name]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        faulty = [MANIFEST]
    if faulty:
        way_on = (
            f"Remove that folder to go on from step {earlier[-1]}."
            if earlier
            else "There is no earlier one: train the run again."
        )
        raise UserError(
            f"{checkpoint} is damaged: {faulty[0]} is not what was saved there. {way_on}"
        )
    return names
