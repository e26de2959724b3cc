"""The best weights of a run, model.safetensors: written, and found again if they were lost."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from regard.runs.resuming import metrics_until
from regard.system.files import writing
from regard.system.tensors import Tensors, read_tensors, weights, write_tensors
from regard.training.loop import Loop


@dataclass(frozen=True)
class BestWeights:
    """model.safetensors of a run directory."""

    run: Path
    metadata: dict[str, str]
    averaged: bool = False
    """Whether a moving average is evaluated and kept in place of the weights."""

    @property
    def path(self) -> Path:
        return self.run / "model.safetensors"

    def save(self, model: nn.Module) -> None:
        """Keep the weights that a model has now."""
        self._write(weights(model))

    def _write(self, tensors: Tensors) -> None:
        with writing(self.path) as aside:
            write_tensors(aside, tensors, metadata=self.metadata)

    def replace_lost(self, loop: Loop, say: Callable[[str], None]) -> None:
        """If a resumed run has lost its best weights, take them from a copy, or begin anew.

        All ranks come to the same decision before any of them writes.
        """
        progress = loop.progress
        lost = progress.best is not None and not self.path.exists()
        copy = self._copy(progress.step) if lost else None
        if lost and copy is None:
            progress.best = None
            say(
                f"{self.path}, the best weights so far, is gone, and there is no copy of them: the "
                f"best are now those of an evaluation after step {progress.step}."
            )
        loop.world.wait()
        if copy is not None and loop.world.writes:
            tensors, _ = read_tensors(copy)
            self._write(tensors)
            say(f"{self.path}, the best weights so far, was gone: they are taken from {copy}.")

    def _copy(self, step: int) -> Path | None:
        """A file with the weights of the best evaluation up to a step, if there is one still."""
        best = [line["step"] for line in metrics_until(self.run, step) if line.get("best")]
        if not best:
            return None
        name = "average" if self.averaged else "model"
        copies = (
            self.run / "snapshots" / f"step-{best[-1]}.safetensors",
            self.run / "checkpoints" / f"step-{best[-1]}" / f"{name}.safetensors",
        )
        return next((copy for copy in copies if copy.exists()), None)

    def save_if_none(self, loop: Loop, say: Callable[[str], None]) -> None:
        """Keep the weights of the last step where no evaluation has chosen any, and say so."""
        if not self.path.exists():
            self.save(loop.model)
            say(
                f"No evaluation has chosen the best weights: {self.path} has those of the last "
                f"step, {loop.progress.step}."
            )
