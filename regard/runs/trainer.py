"""Train: from a configuration to a run directory, in one go or resumed."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from regard import config as configuration
from regard.config import Config
from regard.runs.best_weights import BestWeights
from regard.runs.creating import create, refuse_to_overwrite
from regard.runs.directory import open_task, read_config
from regard.runs.initial_weights import InitialWeights
from regard.runs.lock import locked
from regard.runs.ranks import refuse_idle_ranks, refuse_unseen
from regard.runs.resuming import Resumed, check_resumed, drop_metrics_after, restore
from regard.runs.run import Run
from regard.system.engine import Engine, make_engine
from regard.system.errors import UserError
from regard.system.files import remove_leftovers, write_text
from regard.system.memory import keep_freed_memory
from regard.system.ranks import World
from regard.system.tensors import read_weights
from regard.tasks import TASKS, Task
from regard.training.averages import MovingAverage, Snapshots
from regard.training.callbacks import Evaluate, SaveCheckpoints, StopOnSignal
from regard.training.gradients import make_gradients
from regard.training.groups import describe_groups, freeze
from regard.training.loop import Loop, Progress, Stop
from regard.training.optimisers import make_optimiser
from regard.training.progress import ShowProgress
from regard.training.schedules import make_schedule
from regard.training.sharding import shard


def train(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    init: str | Path | None = None,
    recipe: dict[str, Any] | None = None,
    engine: Engine | None = None,
    world: World | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Run, Stop | None]:
    """Train into a run directory; the run, and why it stopped early if it did.

    resume: continue the run in that directory from its newest checkpoint.
    init: another run whose weights to begin with, or parts of it: "runs/a:encoder,decoder".
    A run that is resumed has them already: None, or the same as when it began.
    recipe: the keys of the recipe that the configuration was made from, so that a later change in
    it is noticed; None if it was made otherwise.
    world: the processes that train together; None: this one alone. Rank 0 alone writes and speaks.
    All of them must see the run directory.
    say: is given the messages on the way, one sentence at a time.
    """
    out, engine, world = Path(out), engine or make_engine(), world or World()
    say = say if world.writes else _silent
    keep_freed_memory()
    config.require_training(where=str(out) if resume else config.recipe or "The configuration")
    if init is not None:
        config = config.model_copy(update={"init": str(init)})
    resumed, initial = None, None
    with contextlib.ExitStack() as held:
        if resume:
            read_config(out)  # refuses what is no run
            if world.writes:
                held.enter_context(locked(out))
            resumed = check_resumed(config, out)
            config = resumed.config
            task = open_task(config, out)
            resumed.checkpoint.require(task.identity)  # before any text is read with it
        else:
            if world.writes:  # another rank may come here when rank 0 has created it already
                refuse_to_overwrite(out)
            config, task, initial = _new_task(config, world)
        _check_data(task, world)
        for sentence in task.warnings():
            say(sentence)
        model = task.build_model(copies=_copies(engine, world))
        if initial is not None:
            initial.copy_to(model, task, anew=config.training.reinit_layers, say=say)
            initial = None  # a large model is not kept twice
        model = model.to(engine.device)
        loop = _loop(config, task, model, engine, world)
        loop.progress.recipe = recipe
        checkpoints = _checkpoints(config, task, model, out)
        _describe(config, model, engine, say)
        refuse_idle_ranks(loop)
        _probe(loop)  # before anything is written
        run = Run(out, config, task, model, engine)
        if resumed is not None:
            _go_on(run, resumed, loop, checkpoints, say)
        else:
            _begin(run, loop, checkpoints, held)
        return _run_loop(run, loop, checkpoints, say), loop.stop


def _begin(run: Run, loop: Loop, checkpoints: SaveCheckpoints, held: contextlib.ExitStack) -> None:
    """Create the run directory, which rank 0 holds from then on and every rank can see."""
    create(run.path, run.config, run.task, loop=loop, checkpoints=checkpoints)
    if loop.world.writes:
        held.enter_context(locked(run.path))
    loop.world.wait()
    refuse_unseen(run.path)


def _go_on(
    run: Run,
    resumed: Resumed,
    loop: Loop,
    checkpoints: SaveCheckpoints,
    say: Callable[[str], None],
) -> None:
    """Put the checkpoint into the loop, and make the run directory that of its step."""
    restore(resumed, loop, checkpoints, say)
    _best_weights(run).replace_lost(loop, say)  # waits: from here on the run changes
    if loop.world.writes:
        write_text(run.path / "config.yaml", configuration.dump(run.config))
        drop_metrics_after(run.path, loop.progress.step)


def _best_weights(run: Run) -> BestWeights:
    return BestWeights(run.path, run.task.identity, averaged=bool(run.config.training.ema))


def _probe(loop: Loop) -> None:
    """Try the largest batches; refuse what this processor cannot compute."""
    try:
        loop.probe()
    except RuntimeError as error:
        if loop.engine.precision == "bf16" and "primitive" in str(error):  # oneDNN's word for it
            raise UserError(
                "This processor cannot train this model in bf16: pass --precision fp32."
            ) from None
        raise


def _silent(sentence: str) -> None:
    """Say nothing: rank 0 says it."""


def _describe(config: Config, model: nn.Module, engine: Engine, say: Callable[[str], None]) -> None:
    """Say which weights have learning rates of their own, and which settings do nothing here."""
    settings = config.training
    groups = describe_groups(model, settings.lr_scales, layer_decay=settings.layer_decay)
    if groups is not None:
        say(groups)
    if settings.shares > 1 and not engine.shares_out:
        say(
            f"train.shares={settings.shares} is for a CPU without --compile or --shard: "
            f"batches stay whole here, and dropout samples other numbers than it would there."
        )


def _new_task(config: Config, world: World) -> tuple[Config, Task, InitialWeights | None]:
    """The task of a new run, with tokenizers of its own or of the run whose weights it takes.

    Rank 0 learns the tokenizers, and the others get its own: learned twice, they might differ.
    """
    initial = InitialWeights.read(config.init) if config.init else None
    task = None
    if world.writes:
        if initial is None:
            task = TASKS[config.task].learn(config)
        else:
            config, task = initial.make_task(config)
    shared = world.from_first(None if task is None else [config.model_dump(), task.files])
    if task is None:
        config = configuration.validate(shared[0], where="rank 0")
        task = TASKS[config.task].open(config, shared[1])
    return config, task, initial


def _copies(engine: Engine, world: World) -> int:
    """How many numbers this machine's memory must hold per weight, for all of its processes.

    In training 4: the weight, its gradient and two averages. Ranks that shard have those once
    together, but each builds the whole model first.
    """
    if engine.device.type != "cpu":
        return 1
    return max(4, world.on_this_machine) if engine.sharded else 4 * world.on_this_machine


def _check_data(task: Task, world: World) -> None:
    """Read all data once: rank 0 first, which makes the files that the others then map."""
    if world.writes:
        task.check_data()
    world.wait()
    if not world.writes:
        task.check_data()


def _checkpoints(config: Config, task: Task, model: nn.Module, out: Path) -> SaveCheckpoints:
    settings = config.training
    return SaveCheckpoints(
        out / "checkpoints",
        settings.save_every,
        settings.keep,
        metadata=task.identity,
        average=MovingAverage(model, settings.ema) if settings.ema else None,
    )


def _loop(
    config: Config, task: Task, model: nn.Module, engine: Engine, world: World | None = None
) -> Loop:
    """The loop that the configuration asks for, at its first step."""
    settings = config.training
    freeze(model, settings.frozen)
    if engine.sharded:
        shard(model, engine.device)
    steps = settings.steps or task.steps(
        epochs=settings.epochs or 1, accumulate=settings.accumulate
    )
    return Loop(
        model,
        task.batches(),
        make_gradients(
            task.loss,
            engine=engine,
            shares=settings.shares,
            seed=config.seed,
            world=world or World(),
        ),
        make_optimiser(
            model,
            name=settings.optimizer,
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            lr_scale=settings.lr_scales,
            layer_decay=settings.layer_decay,
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
        progress=Progress(
            data=task.fingerprint,
            engine=str(engine),
            threads=engine.threads,
            processes=1 if world is None else world.size,
            held_out=task.held_out_fingerprints,
            config=config.model_dump(),
        ),
    )


def _run_loop(
    run: Run, loop: Loop, checkpoints: SaveCheckpoints, say: Callable[[str], None]
) -> Run:
    """Train, with all that happens beside it; the run ends with its best weights."""
    settings, best = run.config.training, _best_weights(run)

    def scores() -> dict[str, float]:
        return run.task.evaluate(
            run.model, "valid", engine=run.engine, metrics=[settings.metric], world=loop.world
        ).metrics

    snapshots = Snapshots(
        run.path / "snapshots", settings.average, settings.average_of, run.task.identity, say
    )
    if loop.world.writes:
        for folder in (run.path, checkpoints.directory, snapshots.directory):
            remove_leftovers(folder)
    with (
        StopOnSignal() as signals,
        ShowProgress(
            steps=loop.steps, done=loop.progress.step, quiet=not loop.world.writes
        ) as shown,
    ):
        evaluate = Evaluate(
            settings.eval_every,
            settings.metric,
            scores,
            run.task.means,
            lambda: best.save(run.model),
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
        signals.after_step(loop)  # one that came during the last evaluation
        loop.world.wait()  # till rank 0 has written the last snapshot
        if loop.stop is None or loop.stop.signal is None:
            evaluate.average_at_the_end(loop)
    with loop.whole_model():
        if loop.world.writes:
            best.save_if_none(loop, say)
    loop.world.wait()  # till rank 0 has written the best weights
    if run.engine.sharded:  # each rank can use a whole model by itself
        run.model = run.task.build_model().to(run.engine.device)
    read_weights(best.path, run.model, metadata=run.task.identity)
    run.model.eval()
    return run
