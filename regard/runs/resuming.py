"""Continuing a run from its newest checkpoint: what must be as it was, and what may change."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import config as configuration
from regard.config import Config
from regard.runs.changes import changes, in_words
from regard.runs.directory import read_config, read_metrics
from regard.runs.initial_weights import InitialWeights
from regard.system.errors import UserError
from regard.system.files import write_text
from regard.system.shards import part_of
from regard.training.callbacks import SaveCheckpoints
from regard.training.checkpoint import Checkpoint, newest_checkpoint
from regard.training.loop import Loop, Progress

Say = Callable[[str], None]

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


def may_change(key: str) -> bool:
    """Whether a run may go on with another value of a key; decoding options are only defaults."""
    return key in MAY_CHANGE_ON_RESUME or key.startswith("decode.")


@dataclass(frozen=True)
class Resumed:
    """What a resumed run goes on from, and with which configuration."""

    checkpoint: Checkpoint
    began: Config
    """The configuration that the checkpoint was made with."""
    config: Config


def check_resumed(config: Config, out: Path) -> Resumed:
    """The newest checkpoint of a run, if it may go on with this configuration.

    Initial weights were taken when it began: they need not be named again. What may not change is
    refused by name, whether config.yaml was edited or the change is in `config`.
    """
    stored, checkpoint = read_config(out), newest_checkpoint(out / "checkpoints")
    if not config.init:
        config = config.model_copy(update={"init": stored.init})
    if stored.init and config.init == stored.init and config.tokenizer != stored.tokenizer:
        # The tokenizer may have come with the weights: change the settings as was done then.
        config, _ = InitialWeights.read(stored.init).make_task(config)
    began = _saved_config(checkpoint) or stored
    edited = changes(began.model_dump(), stored.model_dump(), leaving_out=may_change)
    if edited:
        raise UserError(
            f"{out / 'config.yaml'} was edited: {in_words(edited)}; a resumed run keeps what it "
            f"began with. Put it back, or train into another --out."
        )
    given = changes(stored.model_dump(), config.model_dump(), leaving_out=may_change)
    if given:
        raise UserError(
            f"{out} was started with another {', '.join(change.key for change in given)} "
            f"({in_words(given)}); a resumed run keeps what it began with. Leave the change out, "
            f"or train into another --out."
        )
    return Resumed(checkpoint, began, config)


def _saved_config(checkpoint: Checkpoint) -> Config | None:
    """The configuration in a checkpoint; earlier versions saved none."""
    values = checkpoint.progress.config
    if values is None:
        return None
    return configuration.validate(values, where=str(checkpoint.folder / "progress.json"))


def restore(resumed: Resumed, loop: Loop, checkpoints: SaveCheckpoints, say: Say) -> None:
    """Put the checkpoint into the loop, if the data is still the same."""
    saved, now = resumed.checkpoint.progress, loop.progress
    beside = resumed.checkpoint.load(
        model=loop.model, optimiser=loop.optimiser, metadata=checkpoints.metadata
    )
    if saved.data != now.data:
        raise UserError(
            "The training data is not what this run began with: its file has changed. Put it back, "
            "or train into another --out."
        )
    if saved.step > loop.steps:
        raise UserError(
            f"This run is at step {saved.step} already, past the {loop.steps} that it should "
            f"go to; set a larger train.steps, or leave it out."
        )
    _say_what_changed(saved, now, resumed.config, say)
    loop.progress = replace(
        saved,
        engine=now.engine,
        threads=now.threads,
        processes=now.processes,
        held_out=now.held_out,
        config=now.config,
        recipe=saved.recipe or now.recipe,
    )
    device = loop.engine.device
    loop.carried = {
        name: part[loop.world.rows].contiguous().to(device)
        for name, part in beside.get("carried", {}).items()
    }
    if checkpoints.average is not None:
        if "average" not in beside:
            raise UserError(f"{resumed.checkpoint.folder} has no moving average: set train.ema=0.")
        for name, part in beside["average"].items():
            place = checkpoints.average.tensors[name]
            place.copy_(part_of(part, place))
    _warn_of_schedule(resumed, say)


def _say_what_changed(saved: Progress, now: Progress, config: Config, say: Say) -> None:
    """Say what is not as it was when the checkpoint was saved, and which of both is used."""
    pairs = [(saved.engine, now.engine)] if saved.engine != now.engine else []
    if saved.threads and now.threads and saved.threads != now.threads:
        pairs.append((_counted(saved.threads, "thread"), _counted(now.threads, "thread")))
    other_processes = saved.processes != now.processes
    if other_processes:
        pairs.append((_counted(saved.processes, "process"), _counted(now.processes, "process")))
    if pairs:
        before, present = (", ".join(side) for side in zip(*pairs, strict=True))
        dropout = other_processes and _drops_out(config)
        say(
            f"Resumed with {present} where it was {before}: the weights will be the same up to "
            f"rounding, not to the bit"
            f"{'; and dropout samples other numbers from here on' if dropout else ''}."
        )
    for split, fingerprint in now.held_out.items():
        if saved.held_out.get(split, fingerprint) != fingerprint:
            chosen = split == "valid" and ", by which the best weights so far were chosen"
            say(
                f"data.{split} has changed since step {saved.step}: it is used as it is now, and "
                f"evaluations from here on cannot be compared with earlier ones{chosen or ''}."
            )
    if saved.recipe is not None and now.recipe is not None:
        edited = changes(saved.recipe, now.recipe)
        if edited:
            say(
                f"The recipe {config.recipe!r} has changed since the run began: "
                f"{in_words(edited)}. The run goes on with its own configuration, config.yaml."
            )


def _drops_out(config: Config) -> bool:
    """Whether training samples: each process has random numbers of its own."""
    model = config.model
    rates = (model.dropout, model.attention_dropout, model.feed_forward_dropout)
    return any(rates) or config.training.teacher_forcing < 1


def _counted(count: int, noun: str) -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{plural if count > 1 else ''}"


def _warn_of_schedule(resumed: Resumed, say: Say) -> None:
    """Say so if the learning rate will not follow the curve that it began on."""
    schedule = resumed.config.training.schedule
    changed = changes(
        resumed.began.model_dump(),
        resumed.config.model_dump(),
        leaving_out=lambda key: key not in ("train.steps", "train.epochs"),
    )
    if changed and schedule in DECAYING_TO_THE_END:
        say(
            f"The {schedule} schedule now ends at another step: what follows is not what a run of "
            f"this length would have done from the start."
        )


def drop_metrics_after(path: Path, step: int) -> None:
    """Remove from metrics.jsonl the evaluations that will be made again."""
    write_text(
        path / "metrics.jsonl",
        "".join(json.dumps(line) + "\n" for line in metrics_until(path, step)),
    )


def metrics_until(path: Path, step: int) -> list[dict[str, Any]]:
    """The evaluations of a run up to a step, those of averages aside: they come at the end."""
    return [line for line in read_metrics(path) if line["step"] <= step and "averaged" not in line]
