"""Checkpoints: everything that a run needs to go on to the same bits."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.system.errors import UserError
from regard.system.files import (
    remove_whole,
    saying_what_failed,
    saying_why_unreadable,
    sha256,
    write_json,
    writing,
)
from regard.system.json_files import JsonError, read_json
from regard.system.tensors import (
    Tensors,
    read_tensors,
    read_weights,
    require_metadata,
    write_tensors,
)
from regard.training.loop import Progress
from regard.training.optimisers import restore_optimiser

MANIFEST = "manifest.json"
FILES = ("model.safetensors", "optimizer.safetensors", "progress.json")
"""The files of every checkpoint; its manifest lists whatever else there is."""

TensorFiles = dict[str, Tensors]
"""Tensors by the name of their file."""


def save_checkpoint(
    directory: Path,
    step: int,
    *,
    tensors: TensorFiles,
    progress: dict[str, Any],
    metadata: dict[str, str],
    keep: int,
) -> None:
    """Write `directory/step-N`, and only then remove all but the newest `keep`.

    tensors: those of `model`, `optimizer` and whatever else a run needs; each name is a file.
    """
    with saying_what_failed(directory):
        directory.mkdir(exist_ok=True)  # not its parents: a run that is gone stays so
    target = directory / f"step-{step}"
    if target.exists():
        return  # the same step of the same run has the same bits
    with writing(target) as aside:
        aside.mkdir()
        for name, values in tensors.items():
            own = metadata if name == "model" else None
            write_tensors(aside / f"{name}.safetensors", values, metadata=own)
        write_json(aside / "progress.json", progress)
        write_json(aside / MANIFEST, {path.name: sha256(path) for path in sorted(aside.iterdir())})
    for old in sorted(saved_steps(directory))[:-keep]:
        remove_whole(directory / f"step-{old}")


def saved_steps(directory: Path) -> list[int]:
    """The steps that have a checkpoint here."""
    matches = (re.fullmatch(r"step-(\d+)", path.name) for path in directory.glob("step-*"))
    return [int(match[1]) for match in matches if match]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are what was written."""

    folder: Path
    progress: Progress
    extra: tuple[str, ...] = ()
    """The names of its more tensors."""

    def require(self, metadata: dict[str, str]) -> None:
        """Refuse it if its weights belong to another tokenizer or configuration."""
        require_metadata(self.folder / "model.safetensors", metadata)

    def load(
        self, *, model: nn.Module, optimiser: torch.optim.Optimizer, metadata: dict[str, str]
    ) -> TensorFiles:
        """Put it into model and optimiser; its extra tensors."""
        read_weights(self.folder / "model.safetensors", model, metadata=metadata)
        state, _ = read_tensors(self.folder / "optimizer.safetensors")
        try:
            if self.progress.step and not state:
                raise ValueError("it is empty")
            restore_optimiser(optimiser, model, state)
        except ValueError as error:
            raise UserError(
                f"{self.folder / 'optimizer.safetensors'} does not fit: {error}."
            ) from None
        return {name: read_tensors(self.folder / f"{name}.safetensors")[0] for name in self.extra}


def newest_checkpoint(directory: Path) -> Checkpoint:
    """The newest checkpoint in a directory; refused if any of its files is damaged."""
    with saying_why_unreadable(directory):
        steps = sorted(saved_steps(directory))
    if not steps:
        raise UserError(
            f"There is no checkpoint in {directory} to resume from. Train into another --out, or "
            f"remove the run and train it again."
        )
    newest = directory / f"step-{steps[-1]}"
    names = _checked(newest, earlier=steps[:-1])
    try:
        progress: Progress = read_json(newest / "progress.json", Progress)
    except JsonError as error:
        raise UserError(f"{error}: it is of another version of Regard.") from None
    if progress.step != steps[-1]:
        raise UserError(f"{newest} is that of step {progress.step}: give it its name back.")
    extra = tuple(Path(name).stem for name in names if name not in FILES)
    return Checkpoint(newest, progress, extra)


def _checked(checkpoint: Path, *, earlier: list[int]) -> list[str]:
    """The files of a checkpoint, if the hash of each is the one that its manifest has."""
    try:
        manifest: dict[str, str] = read_json(checkpoint / MANIFEST, dict[str, str])
    except JsonError:
        raise _damaged(checkpoint, MANIFEST, earlier) from None
    names = [*FILES, *sorted(manifest.keys() - set(FILES))]
    with saying_why_unreadable(checkpoint):
        unlisted = {path.name for path in checkpoint.glob("*.safetensors")} - set(names)
    if unlisted:  # they belong to what a run goes on from
        raise _damaged(checkpoint, MANIFEST, earlier)
    for name in names:
        file = checkpoint / name
        if Path(name).name != name or name not in manifest:
            raise _damaged(checkpoint, MANIFEST, earlier)
        with saying_why_unreadable(file):
            intact = file.is_file() and sha256(file) == manifest[name]
        if not intact:
            raise _damaged(checkpoint, name, earlier)
    return names


def _damaged(checkpoint: Path, name: str, earlier: list[int]) -> UserError:
    way_on = (
        f"Remove that folder to go on from step {earlier[-1]}."
        if earlier
        else "There is no earlier one: train the run again."
    )
    return UserError(f"{checkpoint} is damaged: {name} is not what was saved there. {way_on}")
