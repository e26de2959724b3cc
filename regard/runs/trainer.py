"""Train: from a configuration to a run directory, in one go or resumed."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from torch import nn

from regard import config as configuration
from regard.config import Config
from regard.runs.creating import create, refuse_to_overwrite
from regard.runs.directory import open_task
from regard.runs.initial_weights import InitialWeights
from regard.runs.lock import locked
from regard.runs.resuming import check_resumed, drop_metrics_after, restore, warn_of_schedule
from regard.runs.run import Run
from regard.system.engine import Engine, make_engine
from regard.system.files import write_text, writing
from regard.system.memory import keep_freed_memory
from regard.system.tensors import read_weights, weights, write_tensors
from regard.tasks import TASKS, Task
from regard.training.averages import MovingAverage, Snapshots
from regard.training.callbacks import Evaluate, SaveCheckpoints, StopOnSignal
from regard.training.gradients import make_gradients
from regard.training.groups import describe_groups, freeze
from regard.training.loop import Loop, Progress, Stop
from regard.training.optimisers import make_optimiser
from regard.training.progress import ShowProgress
from regard.training.schedules import make_schedule


def train(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    init: str | Path | None = None,
    engine: Engine | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Run, Stop | None]:
    """Train into a run directory; the run, and why it stopped early if it did.

    resume: continue the run in that directory from its newest checkpoint.
    init: another run whose weights to begin with, or parts of it: "runs/a:encoder,decoder".
    say: is given the messages on the way, one sentence at a time.
    """
    out = Path(out)
    engine = engine or make_engine()
    keep_freed_memory()
    config.require_training(where=str(out) if resume else config.recipe or "The configuration")
    with contextlib.ExitStack() as held:
        if resume:
            began = check_resumed(config, out)
            held.enter_context(locked(out))
            task, initial = open_task(config, out), None
        else:
            refuse_to_overwrite(out)
            config, task, initial = _new_task(config, init)
        task.check_data()
        for sentence in task.warnings():
            say(sentence)
        model = task.build_model()
        if initial is not None:
            initial.copy_to(model, task, say=say)
        model = model.to(engine.device)
        loop = _loop(config, task, model, engine)
        checkpoints = _checkpoints(config, task, model, out)
        groups = describe_groups(model, config.training.lr_scales)
        if groups is not None:
            say(groups)
        if config.training.shares > 1 and not engine.shares_out:
            say(
                f"train.shares={config.training.shares} is for a CPU without --compile: batches "
                f"stay whole here, and dropout samples other numbers than it would there."
            )
        loop.probe()  # before anything is written
        if resume:
            restore(loop, checkpoints, say)
            warn_of_schedule(began, config, say)
            write_text(out / "config.yaml", configuration.dump(config))
            drop_metrics_after(out, loop.progress.step)
        else:
            create(out, config, task, loop=loop, checkpoints=checkpoints)
            held.enter_context(locked(out))
        return _run_loop(Run(out, config, task, model, engine), loop, checkpoints), loop.stop


def _new_task(
    config: Config, init: str | Path | None
) -> tuple[Config, Task, InitialWeights | None]:
    """The task of a new run, with tokenizers of its own or of the run whose weights it takes."""
    if init is not None:
        config = config.model_copy(update={"init": str(init)})
    if not config.init:
        return config, TASKS[config.task].learn(config), None
    initial = InitialWeights.read(config.init)
    config, task = initial.make_task(config)
    return config, task, initial


def _checkpoints(config: Config, task: Task, model: nn.Module, out: Path) -> SaveCheckpoints:
    settings = config.training
    return SaveCheckpoints(
        out / "checkpoints",
        settings.save_every,
        settings.keep,
        metadata=task.identity,
        average=MovingAverage(model, settings.ema) if settings.ema else None,
    )


def _loop(config: Config, task: Task, model: nn.Module, engine: Engine) -> Loop:
    """The loop that the configuration asks for, at its first step."""
    settings = config.training
    freeze(model, settings.frozen)
    steps = settings.steps or task.steps(
        epochs=settings.epochs or 1, accumulate=settings.accumulate
    )
    return Loop(
        model,
        task.batches(),
        make_gradients(task.loss, engine=engine, shares=settings.shares, seed=config.seed),
        make_optimiser(
            model,
            name=settings.optimizer,
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            lr_scale=settings.lr_scales,
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
        accumulate=settings.accumulate,
        clip=settings.clip,
        progress=Progress(data=task.fingerprint, engine=str(engine)),
    )


def _run_loop(run: Run, loop: Loop, checkpoints: SaveCheckpoints) -> Run:
    """Train, with all that happens beside it; the run ends with its best weights."""
    settings, best = run.config.training, run.path / "model.safetensors"

    def scores() -> dict[str, float]:
        return run.task.evaluate(
            run.model, "valid", engine=run.engine, metrics=[settings.metric]
        ).metrics

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
