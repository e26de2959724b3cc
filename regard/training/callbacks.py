"""Callbacks of the loop: evaluate, keep the best weights, save, stop."""

import contextlib
import json
import math
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from regard.config import METRICS
from regard.system.errors import UserError
from regard.system.files import append_line
from regard.system.shards import gathered
from regard.system.tensors import weights
from regard.training.averages import MovingAverage, Snapshots, set_weights
from regard.training.checkpoint import TensorFiles, save_checkpoint
from regard.training.loop import Loop, Stop
from regard.training.loss import Sums
from regard.training.optimisers import optimiser_tensors


@dataclass
class Evaluate:
    """Evaluate every so many updates and at the end: a line in metrics.jsonl, the best weights."""

    every: int
    metric: str
    evaluate: Callable[[], dict[str, float]]
    """The metrics on valid."""
    means: Callable[[Sums], dict[str, float]]
    save_best: Callable[[], None]
    log: Path
    patience: int | None = None
    average: MovingAverage | None = None
    snapshots: Snapshots | None = None
    report: Callable[[dict[str, Any]], None] = lambda line: None
    """Called with every line that is written."""

    def after_step(self, loop: Loop) -> None:
        progress = loop.progress
        if progress.step % self.every and progress.step != loop.steps:
            return
        loop.model.eval()
        averaged = (
            contextlib.nullcontext() if self.average is None else self.average.in_place(loop.model)
        )
        with averaged, loop.whole_model():
            self._evaluate(loop)
        loop.model.train()

    def _evaluate(self, loop: Loop) -> None:
        progress, valid = loop.progress, self.evaluate()
        if not math.isfinite(valid["loss"]):
            raise UserError(
                f"The loss on valid is {valid['loss']} after step {progress.step}: training has "
                f"diverged. Try a lower train.lr; earlier checkpoints are untouched."
            )
        rank = self._rank(valid)
        if self.snapshots is not None:
            self.snapshots.take(loop, rank)
        better = progress.best is None or rank > progress.best
        if better:
            progress.best, progress.since_best = rank, 0
            self._save_best(loop)
        else:
            progress.since_best += 1
        self._write(loop, train=self.means(progress.take_sums()), valid=valid, best=better)
        exhausted = self.patience is not None and progress.since_best >= self.patience
        if exhausted and loop.stop is None:  # a signal in the same step is the reason to stop
            loop.stop = Stop(f"no better {self.metric} in {self.patience} evaluations")

    def _rank(self, valid: dict[str, float]) -> list[float]:
        """Higher is better; of two equal values of the metric, the lower loss."""
        return [METRICS[self.metric].gain(valid[self.metric]), -valid["loss"]]

    def _write(self, loop: Loop, **more: Any) -> None:
        line = {
            "step": loop.progress.step,
            "epoch": loop.progress.epoch,
            "lr": loop.learning_rate,
            "seconds": round(loop.progress.seconds, 3),
            **more,
        }
        if loop.world.writes:
            append_line(self.log, json.dumps(line))
            self.report(line)

    def _save_best(self, loop: Loop) -> None:
        if loop.world.writes:
            self.save_best()

    def average_at_the_end(self, loop: Loop) -> None:
        """Evaluate the mean of the snapshots too; if it is the best so far, it is kept."""
        if self.snapshots is None:
            return
        self.snapshots.leave_out_lost(loop)
        kept = loop.progress.snapshots
        if len(kept) < 2:
            return
        set_weights(loop.model, self.snapshots.mean(loop))
        loop.model.eval()
        with loop.whole_model():
            valid = self.evaluate()
            better = loop.progress.best is None or self._rank(valid) > loop.progress.best
            if better:
                self._save_best(loop)
        steps = [int(step) for step, *_ in kept]
        self._write(loop, train={}, valid=valid, best=better, averaged=steps)


@dataclass
class SaveCheckpoints:
    """Save a checkpoint every so many updates, at the end, and before stopping for any reason."""

    directory: Path
    every: int
    keep: int
    metadata: dict[str, str] = field(default_factory=dict)
    average: MovingAverage | None = None

    def after_step(self, loop: Loop) -> None:
        step = loop.progress.step
        if step % self.every == 0 or step == loop.steps or loop.stop is not None:
            self.save(loop)

    def save(self, loop: Loop) -> None:
        """Write a checkpoint of all ranks, in the layout of one: any number can go on from it."""
        self.write(self.gather(loop), loop)

    def gather(self, loop: Loop) -> TensorFiles:
        """The tensors of a checkpoint by the name of their file; every rank must bring its part."""
        world = loop.world
        tensors = {
            "model": gathered(weights(loop.model), world),
            "optimizer": gathered(optimiser_tensors(loop.optimiser, loop.model), world),
            "carried": {name: world.join_rows(part) for name, part in loop.carried.items()},
        }
        if self.average is not None:
            tensors["average"] = gathered(self.average.tensors, world)
        return tensors

    def write(self, tensors: TensorFiles, loop: Loop) -> None:
        """Write what was gathered, if this is the rank that writes."""
        if loop.world.writes:
            save_checkpoint(
                self.directory,
                loop.progress.step,
                tensors=tensors,
                progress=asdict(loop.progress),
                metadata=self.metadata,
                keep=self.keep,
            )


@dataclass
class StopOnSignal:
    """SIGINT and SIGTERM end the run after the present update; a second one ends it at once.

    Python allows signal handlers in the main thread alone: in another, signals are left to it.
    """

    received: signal.Signals | None = None
    _before: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> "StopOnSignal":
        in_main_thread = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGINT, signal.SIGTERM) if in_main_thread else ():
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        signal.signal(number, self._before[number])

    def after_step(self, loop: Loop) -> None:
        """Stop the loop if a signal has come; called once more after the last step.

        All ranks stop after the same step, whichever of them received it.
        """
        received = [number for number in loop.world.gather(self.received) if number is not None]
        if received:
            name = signal.Signals(received[0]).name
            loop.stop = Stop(f"stopped by {name}", received[0])
