"""A new run directory, which can be resumed from its first moment."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from regard import config as configuration
from regard.config import Config
from regard.runs.directory import is_run
from regard.system.errors import UserError
from regard.system.files import aside_of, saying_what_failed, writing
from regard.tasks import Task
from regard.training.callbacks import SaveCheckpoints
from regard.training.loop import Loop


def refuse_to_overwrite(out: Path) -> None:
    """Refuse a place where something is already, or where nothing can be written."""
    with saying_what_failed(out):
        if out.name in ("", "..") or (out.is_dir() and out.samefile(os.curdir)):
            raise UserError(
                f"--out {out} is not a directory to create: name a new one, as in "
                f"--out {out / 'run'}."
            )
        _try_to_write(out)
    if is_run(out):
        raise UserError(
            f"{out} already holds a run. Continue it with --resume, choose another --out, or "
            f"remove the directory."
        )
    if out.is_symlink():
        nothing = "" if out.exists() else ", where there is nothing"
        raise UserError(
            f"{out} is a link to {out.readlink()}{nothing}: a run is not created over a link. Name "
            f"another --out."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not empty; choose another --out.")


def _try_to_write(out: Path) -> None:
    """Raise what writing would raise later, when tokenizers are learned and data is read."""
    aside = aside_of(out)
    place = next(parent for parent in aside.absolute().parents if os.path.lexists(parent))
    (place / aside.name).exists()  # its name may be too long
    with tempfile.TemporaryFile(dir=place):
        pass


def create(
    out: Path, config: Config, task: Task, *, loop: Loop, checkpoints: SaveCheckpoints
) -> None:
    """Write configuration, tokenizers and a checkpoint of step 0: all of it or nothing.

    Every rank must call it, for a checkpoint is of all of them; one writes.
    """
    tensors = checkpoints.gather(loop)
    if not loop.world.writes:
        return
    with saying_what_failed(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    with writing(out) as aside:
        aside.mkdir()
        for name, text in task.files.items():
            (aside / name).write_text(text, encoding="utf-8")
        (aside / "config.yaml").write_text(configuration.dump(config), encoding="utf-8")
        replace(checkpoints, directory=aside / checkpoints.directory.name).write(tensors, loop)
