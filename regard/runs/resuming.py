"""Continuing a run from its newest checkpoint: what must be as it was, and what may change."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from regard import config as configuration
from regard.config import Config
from regard.runs.directory import read_config, read_metrics
from regard.runs.initial_weights import InitialWeights
from regard.system.errors import UserError
from regard.system.files import write_text
from regard.training.callbacks import SaveCheckpoints
from regard.training.checkpoint import load_checkpoint
from regard.training.loop import Loop, Progress

MAY_CHANGE_ON_RESUME = {
    "data.directory",
    "train.steps",
    "train.epochs",
    "train.eval_every",
    "train.save_every",
    "train.keep",
    "train.patience",
}
DECAYING_TO_THE_END = ("cosine", "linear")
"""Schedules whose learning rate at any step depends on which step is the last."""


def check_resumed(config: Config, out: Path) -> tuple[Config, Config]:
    """The configuration that the run began with, and the one that it goes on with.

    Initial weights were taken when it began: they need not be named again. One that differs in
    what may not change is refused.
    """
    began = read_config(out)
    if not config.init:
        config = config.model_copy(update={"init": began.init})
    if began.init and config.init == began.init and config.tokenizer != began.tokenizer:
        # The tokenizer may have come with the weights: change the settings as was done then.
        config, _ = InitialWeights.read(began.init).make_task(config)
    fixed = [
        key for key in configuration.differences(began, config) if key not in MAY_CHANGE_ON_RESUME
    ]
    if fixed:
        raise UserError(
            f"{out} was started with another {', '.join(fixed)}; a resumed run keeps what it "
            f"began with. Leave the change out, or train into another --out."
        )
    return began, config


def restore(loop: Loop, checkpoints: SaveCheckpoints, say: Callable[[str], None]) -> None:
    """Put the newest checkpoint into the loop, if the data is still the same."""
    values, beside = load_checkpoint(
        checkpoints.directory,
        model=loop.model,
        optimiser=loop.optimiser,
        metadata=checkpoints.metadata,
    )
    try:
        progress = Progress(**values)
    except TypeError:
        raise UserError(f"{checkpoints.directory}: progress.json is of another version.") from None
    if progress.data != loop.progress.data:
        raise UserError(
            "The training data is not what this run began with: its file has changed. Put it back, "
            "or train into another --out."
        )
    if progress.step > loop.steps:
        raise UserError(
            f"This run is at step {progress.step} already, past the {loop.steps} that it should "
            f"go to; set a larger train.steps, or leave it out."
        )
    if progress.engine != loop.progress.engine:
        say(
            f"Resumed with {loop.progress.engine} where it was {progress.engine}: the weights will "
            f"be the same up to rounding, not to the bit."
        )
    loop.progress = replace(progress, engine=loop.progress.engine)
    device = loop.engine.device
    loop.carried = {name: part.to(device) for name, part in beside.get("carried", {}).items()}
    if checkpoints.average is not None:
        for name, part in beside["average"].items():
            checkpoints.average.tensors[name].copy_(part)


def warn_of_schedule(began: Config, config: Config, say: Callable[[str], None]) -> None:
    """Say so if the learning rate will not follow the curve that it began on."""
    changed = {"train.steps", "train.epochs"} & set(configuration.differences(began, config))
    schedule = config.training.schedule
    if changed and schedule in DECAYING_TO_THE_END:
        say(
            f"The {schedule} schedule now ends at another step: what follows is not what a run of "
            f"this length would have done from the start."
        )


def drop_metrics_after(path: Path, step: int) -> None:
    """Remove from metrics.jsonl the evaluations that will be made again."""
    kept = [line for line in read_metrics(path) if line["step"] <= step and "averaged" not in line]
    write_text(path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))
