"""Training under torchrun: the processes join, and one of them speaks."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

from regard.commands.terminal import resume_command, tell
from regard.runs.directory import is_run
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.ranks import LostRankError, World
from regard.system.torchrun import Launch, tell_torchrun


@contextlib.contextmanager
def training_ranks(
    engine: Engine, place: Path, *, resume: bool
) -> Iterator[tuple[World, Engine, bool]]:
    """The processes that train together, this one's engine, and whether they resume a run.

    Without torchrun it is one process alone. When torchrun has started the processes again, they go
    on from the newest checkpoint of the run that they had begun.
    """
    launch = Launch.read()
    if engine.sharded and (launch is None or launch.size == 1):
        raise UserError(
            "--shard divides a model among several processes, and this is one alone: start them "
            "with torchrun --nproc-per-node 2 -m regard train ..., or leave --shard out."
        )
    if launch is None:
        yield World(), engine, resume
        return
    engine = launch.own_device(engine)
    launch.divide_threads()
    try:
        with _ended_by_torchrun(launch), launch.joined(engine) as world:
            yield world, engine, world.from_first(world.writes and _resumes(launch, place, resume))
    except LostRankError:
        _say_what_is_lost(launch)
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _ended_by_torchrun(launch: Launch) -> Iterator[None]:
    """SIGTERM ends this process with a sentence; while it trains, after the present update.

    torchrun sends it to all others when one process has died.
    """
    if launch.size == 1:
        yield
        return

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise LostRankError("torchrun has ended this process")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _resumes(launch: Launch, place: Path, resume: bool) -> bool:
    """Whether to go on with a run: as the person says, or with what an earlier attempt began.

    A run that was there before the first attempt is not one of these processes.
    """
    began_here = launch.remember("place", "old" if is_run(place) else "new") == "new"
    return resume or (launch.attempt > 0 and began_here and is_run(place))


def _say_what_is_lost(launch: Launch) -> None:
    """One sentence of one rank, which stands in torchrun's summary too."""
    if not launch.is_first_to_say():
        return
    sentence = "A process of this training has ended, and the others cannot go on alone. "
    if launch.attempts_left > 0:
        sentence += "torchrun starts all of them again, from the last checkpoint."
    else:
        sentence += f"Continue from the last checkpoint with: {resume_command(sys.argv[1:])}"
    tell_torchrun(sentence, later=1)
    tell(f"regard: {sentence}")
