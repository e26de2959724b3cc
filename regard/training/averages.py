"""Averages of weights: a moving average while training, or the mean of several evaluations."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from regard.system.files import saying_what_failed, writing
from regard.system.shards import part_of
from regard.system.tensors import read_tensors, weights, write_tensors
from regard.training.loop import Loop

Choice = Literal["last", "best"]


class MovingAverage:
    """w̄ ← β w̄ + (1 − β) w after every update (Polyak & Juditsky 1992, exponentially weighted).

    β = min(decay, (1 + t) / (10 + t)) at update t, so that the first weights, which are random,
    are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors = {name: value.clone() for name, value in weights(model).items()}

    def after_step(self, loop: Loop) -> None:
        step = loop.progress.step
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_([*self.tensors.values()], [*weights(loop.model).values()], 1 - decay)

    @contextlib.contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Within this context, the model has the averaged weights."""
        own = {name: value.clone() for name, value in weights(model).items()}
        set_weights(model, self.tensors)
        try:
            yield
        finally:
            set_weights(model, own)


def set_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy these tensors, by name, into the weights of a model."""
    for name, value in weights(model).items():
        value.copy_(part_of(tensors[name], value))


@dataclass
class Snapshots:
    """The weights of some evaluations, `directory/step-N.safetensors`: the last or the best.

    Their mean is often better than any of them (Vaswani et al. 2017, §6.1, average the last).
    The loop's progress lists them, so that a resumed run has the same ones.
    """

    directory: Path
    count: int
    choice: Choice
    metadata: dict[str, str]
    say: Callable[[str], None] = print
    """Is told of a file that somebody has removed."""

    def take(self, loop: Loop, rank: list[float]) -> None:
        """Save the weights of this step and delete those beyond `count`; a higher rank is kept."""
        step = loop.progress.step
        self.leave_out_lost(loop)
        if loop.world.writes:
            self._write(loop)
        kept = [*loop.progress.snapshots, [float(step), *rank]]
        if self.choice == "best":
            kept.sort(key=lambda snapshot: snapshot[1:])
        loop.progress.snapshots = kept[-self.count :]
        if loop.world.writes:
            for old, *_ in kept[: -self.count]:
                self._file(int(old)).unlink(missing_ok=True)

    def leave_out_lost(self, loop: Loop) -> None:
        """Forget the snapshots whose files are gone, and say so: the others are averaged."""
        kept = loop.progress.snapshots
        lost = [snapshot for snapshot in kept if not self._file(int(snapshot[0])).exists()]
        if lost:
            steps = ", ".join(str(int(step)) for step, *_ in lost)
            self.say(
                f"{self.directory}: the weights of step {steps} are gone, and will not be part of "
                f"the average."
            )
            loop.progress.snapshots = [snapshot for snapshot in kept if snapshot not in lost]

    def _write(self, loop: Loop) -> None:
        with saying_what_failed(self.directory):
            self.directory.mkdir(exist_ok=True)
        with writing(self._file(loop.progress.step)) as aside:
            write_tensors(aside, weights(loop.model), metadata=self.metadata)

    def mean(self, loop: Loop) -> dict[str, Tensor]:
        """Σ w / k over the k snapshots; a frozen weight is left as it is, without rounding."""
        snapshots = [read_tensors(self._file(int(step)))[0] for step, *_ in loop.progress.snapshots]
        return {
            name: torch.stack([tensors[name] for tensors in snapshots]).mean(dim=0)
            if parameter.requires_grad
            else parameter.data
            for name, parameter in loop.model.named_parameters()
        }

    def _file(self, step: int) -> Path:
        return self.directory / f"step-{step}.safetensors"
