"""Train: from a configuration to a run directory, in one go or resumed."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from torch import nn

from regard import config as configuration
from regard.config import METRICS, Config
from regard.runs.directory import is_run, open_task, read_config, read_metrics
from regard.runs.run import Run
from regard.system.engine import Engine, make_engine
from regard.system.errors import UserError
from regard.system.files import saying_what_failed, write_text, writing
from regard.system.memory import keep_freed_memory
from regard.system.tensors import read_weights, weights, write_tensors
from regard.tasks import TASKS, Task
from regard.training.averages import MovingAverage, Snapshots
from regard.training.callbacks import Evaluate, SaveCheckpoints, StopOnSignal
from regard.training.checkpoint import load_checkpoint
from regard.training.loop import Loop, Progress, Stop
from regard.training.optimisers import make_optimiser
from regard.training.progress import ShowProgress
from regard.training.schedules import make_schedule

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

MAY_CHANGE_ON_RESUME = {
    "data.directory",
    "train.steps",
    "train.epochs",
    "train.eval_every",
    "train.save_every",
    "train.keep",
    "train.patience",
}
ENDING = ("cosine", "linear")
"""Schedules whose every step depends on the last one's number."""


def train(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    engine: Engine | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Run, Stop | None]:
    """Train into a run directory; the run, and why it stopped early if it did.

    say: is given the messages on the way, one sentence at a time.
    """
    out = Path(out)
    engine = engine or make_engine()
    keep_freed_memory()
    with contextlib.ExitStack() as held:
        if resume:
            began = _check_resumed(config, out)
            held.enter_context(alone_in(out))
            task = open_task(config, out)
        else:
            _refuse_to_overwrite(out)
            task = TASKS[config.task](config)
        task.check_data()
        for sentence in task.notices():
            say(sentence)
        model = task.build_model().to(engine.device)
        loop = _loop(config, task, model, engine)
        checkpoints = SaveCheckpoints(
            out / "checkpoints",
            config.train.save_every,
            config.train.keep,
            metadata=task.identity,
            average=MovingAverage(model, config.train.ema) if config.train.ema else None,
        )
        if config.train.shares > loop.shares:
            say(
                f"train.shares={config.train.shares} is for a CPU without --compile: batches stay "
                f"whole here, and dropout draws other numbers than it would there."
            )
        loop.probe()  # before anything is written
        if resume:
            _take_up(loop, checkpoints, say)
            _tell_of_schedule(began, config, say)
            write_text(out / "config.yaml", configuration.dump(config))
            _forget_after(out, loop.progress.step)
        else:
            _create(out, config, task, loop, checkpoints)
            held.enter_context(alone_in(out))
        return _run_loop(Run(out, config, task, model, engine), loop, checkpoints), loop.stop


def _loop(config: Config, task: Task, model: nn.Module, engine: Engine) -> Loop:
    """The loop that the configuration asks for, at its first step."""
    settings = config.train
    steps = settings.steps or task.steps(
        epochs=settings.epochs or 1, accumulate=settings.accumulate
    )
    return Loop(
        model,
        task.batches(),
        task.loss,
        make_optimiser(
            model, name=settings.optimizer, lr=settings.lr, weight_decay=settings.weight_decay
        ),
        make_schedule(
            settings.schedule,
            lr=settings.lr,
            warmup=settings.warmup,
            steps=steps,
            d_model=config.model.d_model,
            cycles=settings.cycles,
        ),
        steps,
        engine=engine,
        accumulate=settings.accumulate,
        shares=settings.shares if engine.shares_out else 1,
        clip=settings.clip,
        seed=config.seed,
        progress=Progress(data=task.fingerprint, engine=str(engine)),
    )


def _run_loop(run: Run, loop: Loop, checkpoints: SaveCheckpoints) -> Run:
    """Train, with all that happens beside it; the run ends with its best weights."""
    settings, best = run.config.train, run.path / "model.safetensors"

    def scores() -> dict[str, float]:
        needed = [settings.metric] if METRICS[settings.metric].generated else []
        return run.task.evaluate(run.model, "valid", engine=run.engine, written=needed)[1]

    def save_best() -> None:
        with writing(best) as aside:
            write_tensors(aside, weights(run.model), metadata=run.task.identity)

    snapshots = Snapshots(
        run.path / "snapshots", settings.average, settings.average_of, run.task.identity
    )
    folders = (run.path, checkpoints.directory, snapshots.directory)
    for leftover in [path for folder in folders for path in folder.glob(".*.part")]:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()  # of a killed process
    with (
        StopOnSignal() as signals,
        ShowProgress(steps=loop.steps, done=loop.progress.step) as shown,
    ):
        evaluate = Evaluate(
            settings.eval_every,
            settings.metric,
            scores,
            run.task.means,
            save_best,
            run.path / "metrics.jsonl",
            settings.patience,
            checkpoints.average,
            snapshots if settings.average > 1 else None,
            shown.evaluated,
        )
        average = [] if checkpoints.average is None else [checkpoints.average]
        loop.callbacks = [shown, signals, *average, evaluate, checkpoints]
        if settings.patience is None or loop.progress.since_best < settings.patience:
            loop.run()
        if loop.stop is None or loop.stop.signal is None:
            evaluate.average_at_the_end(loop)
    if not best.exists():
        save_best()  # stopped before the first evaluation: the latest is the best
    read_weights(best, run.model, metadata=run.task.identity)
    run.model.eval()
    return run


@contextlib.contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Hold a run directory, so that two processes do not train into it at once."""
    if fcntl is None:  # no such locks on this system
        yield
        return
    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(f"{out} is being trained by another process.") from None
    finally:
        os.close(descriptor)


def _take_up(loop: Loop, checkpoints: SaveCheckpoints, say: Callable[[str], None]) -> None:
    """Go on from the newest checkpoint, if it is still the same data; say what else is new."""
    found, beside = load_checkpoint(
        checkpoints.directory,
        model=loop.model,
        optimiser=loop.optimiser,
        metadata=checkpoints.metadata,
    )
    try:
        progress = Progress(**found)
    except TypeError:
        raise UserError(f"{checkpoints.directory}: progress.json is not of this version.") from None
    if progress.data != loop.progress.data:
        raise UserError(
            "The training data is not what this run began with: its file has changed. Put it back, "
            "or train into another --out."
        )
    if progress.step > loop.steps:
        raise UserError(
            f"This run is at step {progress.step} already, past the {loop.steps} that it should "
            f"go to; ask for more train.steps, or for none."
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


def _refuse_to_overwrite(out: Path) -> None:
    if is_run(out):
        raise UserError(
            f"{out} already holds a run. Go on with it by --resume, choose another --out, or "
            f"remove the folder."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not empty; choose another --out.")


def _create(
    out: Path, config: Config, task: Task, loop: Loop, checkpoints: SaveCheckpoints
) -> None:
    """A run directory with a checkpoint of step 0, which can be resumed: whole or not at all."""
    with saying_what_failed(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    with writing(out) as aside:
        aside.mkdir()
        for name, text in task.files.items():
            (aside / name).write_text(text, encoding="utf-8")
        (aside / "config.yaml").write_text(configuration.dump(config), encoding="utf-8")
        replace(checkpoints, directory=aside / checkpoints.directory.name).save(loop)


def _check_resumed(config: Config, out: Path) -> Config:
    """What the run began with, if the configuration keeps to it."""
    began = read_config(out)
    fixed = [
        key for key in configuration.differences(began, config) if key not in MAY_CHANGE_ON_RESUME
    ]
    if fixed:
        raise UserError(
            f"{out} was started with another {', '.join(fixed)}; a resumed run keeps what it "
            f"began with. Leave the change out, or train into another --out."
        )
    return began


def _tell_of_schedule(began: Config, config: Config, say: Callable[[str], None]) -> None:
    changed = {"train.steps", "train.epochs"} & set(configuration.differences(began, config))
    if changed and config.train.schedule in ENDING:
        say(
            f"The {config.train.schedule} schedule now ends at another step: what follows is not "
            f"what a run of this length would have done from the start."
        )


def _forget_after(path: Path, step: int) -> None:
    """Leave out of metrics.jsonl what will be made again."""
    kept = [line for line in read_metrics(path) if line["step"] <= step and "averaged" not in line]
    write_text(path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))
