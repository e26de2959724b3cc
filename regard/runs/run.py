"""Run: what `regard.load(path)` returns. A trained model with all that it needs to be used."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import config as configuration
from regard.config import Config, Decode
from regard.data.splits import Split
from regard.data.tokenizer import Tokenizer
from regard.decoding import Ensemble
from regard.nn import Trace, int8
from regard.pretrained import ctranslate2, onnx
from regard.runs.directory import open_task, read_config, read_metrics
from regard.system.engine import Engine, make_engine
from regard.system.errors import UserError
from regard.system.files import saying_what_failed, writing
from regard.system.tensors import read_weights
from regard.tasks import Answer, Evaluation, Prediction, Request, Task

EXPORTERS = {"ctranslate2": ctranslate2.export, "onnx": onnx.export}
"""By the name of the engine or the format."""


@dataclass
class Run:
    """A trained model with all that it needs: `run.predict(["3 1 2"])`, `run.trace("3 1 2")`."""

    path: Path
    config: Config
    task: Task
    model: Any
    engine: Engine
    members: int = 1
    """How many models generate its outputs together."""

    @property
    def tokenizer(self) -> Tokenizer:
        return self.task.tokenizer

    def predict(self, lines: Sequence[str], **decoding: Any) -> list[str]:
        """The best output for each line; `beam=5` and the like as in the configuration."""
        return [prediction.best for prediction in self.predictions(lines, decoding=decoding)]

    def predictions(
        self, lines: Sequence[str], *, decoding: dict[str, Any] | None = None, **options: Any
    ) -> list[Prediction]:
        """The n_best outputs for each line, with all there is to say about them."""
        return self.answer(lines, decoding=decoding, **options).predictions

    def answer(
        self, lines: Sequence[str], *, decoding: dict[str, Any] | None = None, **options: Any
    ) -> Answer:
        """Predictions, counts and refused lines; options: those of `Request`."""
        request = Request(lines, self.decode_options(decoding or {}), **options)
        return self.task.predict(self.model, request, engine=self.engine)

    def together_with(self, others: Sequence["Run"]) -> "Run":
        """A run whose outputs are written by the models of all of these: they have one vocabulary.

        Its weights are not changed, and its own tokenizers and ways of decoding are used.
        """
        for other in others:
            if not (self.task.can_ensemble and other.task.can_ensemble):
                raise UserError("An ensemble is of runs of task=translate.")
            if other.task.files != self.task.files:
                raise UserError(
                    f"{other.path} has another vocabulary than {self.path}: runs can write "
                    f"together if their tokenizers are the same."
                )
            if other.task.longest_output < self.task.longest_output:
                raise UserError(
                    f"{other.path} knows no more than {other.task.longest_output} positions, fewer "
                    f"than {self.path}: name it first."
                )
        models = [self.model, *(other.model for other in others)]
        return replace(self, model=Ensemble(models), members=len(models)) if others else self

    def decode_options(self, changes: dict[str, Any]) -> Decode:
        """The run's way of decoding, with changes; to name a beam is to ask for beam search."""
        if not self.task.generates:
            ignored = sorted(changes.keys() - {"n_best"})
            if ignored:
                raise UserError(
                    f"{ignored[0]} is for runs that generate text; the task of {self.path} is "
                    f"{self.config.task}."
                )
            changes = {"beam": changes["n_best"]} | changes if changes else {}
        strategy = _strategy(changes, self.config.decode.strategy)
        values = self.config.model_dump()
        values["decode"] |= strategy | changes
        return configuration.validate(values, where=str(self.path)).decode

    def evaluate(self, split: Split = "test", **decoding: Any) -> dict[str, Any]:
        """The metrics on a split, as `regard evaluate --json` prints them."""
        began = time.perf_counter()
        evaluation = self.evaluation(split, **decoding)
        return self.summary(evaluation, split, seconds=time.perf_counter() - began)

    def evaluation(self, split: Split = "test", **decoding: Any) -> Evaluation:
        """The metrics on a split, with outputs to look into, warnings and signatures."""
        if decoding and not self.task.scores_outputs:
            raise UserError(
                f"{min(decoding)} changes no score of task={self.config.task}, which are made "
                f"without generating outputs."
            )
        decode = self.decode_options(decoding)
        return self.task.evaluate(self.model, split, engine=self.engine, decode=decode)

    def summary(self, evaluation: Evaluation, split: Split, *, seconds: float) -> dict[str, Any]:
        """An evaluation as `regard evaluate --json` prints it."""
        return {
            "task": self.config.task,
            "recipe": self.config.recipe,
            "split": split,
            "examples": evaluation.examples,
            "seconds": round(seconds, 3),
            "metrics": evaluation.metrics | evaluation.signatures,
        }

    def export(self, to: str, folder: str | Path) -> None:
        """Write the model for another engine: to="ctranslate2" or "onnx"."""
        folder = Path(folder)
        if to not in EXPORTERS:
            raise UserError(f"to={to!r} is not one of {', '.join(EXPORTERS)}.")
        if self.members > 1:
            raise UserError("An ensemble cannot be exported: export its runs one by one.")
        if to not in self.model.exports:
            raise UserError(
                f"{to} is for Transformers of task=translate; this run's model is "
                f"recurrent, and its task {self.config.task}."
            )
        if any(isinstance(part, int8.Int8Linear) for part in self.model.modules()):
            raise UserError("What is exported is in full precision: open the run without quantize.")
        if folder.exists():
            raise UserError(f"{folder} exists already; choose another folder.")
        with saying_what_failed(folder):
            folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with writing(folder) as aside:
            longest = max(1024, self.config.data.max_length + 1, self.config.decode.max_new_tokens)
            EXPORTERS[to](self.model, self.task.tokenizers, aside, longest=longest)

    def trace(self, text: str) -> Trace:
        """Attention of every layer and head, masks and shapes, by readable path."""
        return self.task.trace(self.model, text, engine=self.engine)

    def warnings(self) -> list[str]:
        """One sentence on each thing in the data that could not be read as it is."""
        return self.task.warnings()

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return read_metrics(self.path)


SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")


def _strategy(changes: dict[str, Any], own: str) -> dict[str, str]:
    """The way of decoding that some options belong to, if it is not named; own: the run's."""
    given = changes.get("strategy")
    drawn = [name for name in SAMPLING if name in changes]
    several = ("n_best",) if (given or own) != "sample" and not drawn else ()
    beams = [name for name in ("beam", "length_penalty", *several) if name in changes]
    for names, wanted, what in ((beams, "beam", "beam search"), (drawn, "sample", "sampling")):
        if names and given not in (None, wanted):
            raise UserError(f"{names[0]} goes with {what}, and strategy={given} was asked for.")
    if beams and drawn:
        raise UserError(f"{beams[0]} goes with beam search and {drawn[0]} with sampling.")
    return {"strategy": "beam"} if beams else {"strategy": "sample"} if drawn else {}


def load(
    path: str | Path,
    *,
    device: str = "cpu",
    data: str | Path | None = None,
    settings: Sequence[str] = (),
    quantize: str | None = None,
) -> Run:
    """Open a run directory: its configuration, tokenizer and best weights.

    settings: other data to evaluate on, as in ["data.test=parity-long"].
    quantize: "int8" computes the linear maps of a Transformer in 8 bits: faster on a CPU.
    """
    path = Path(path)
    config = read_config(path)
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if not key.startswith("data.") or key in (
            "data.scores",
            "data.held_out",
            "data.split_seed",
        ):
            raise UserError(
                f"-s {setting}: of a trained run, where its data comes from can be changed, and "
                f"nothing else."
            )
    config = configuration.override(config, settings, where=str(path))
    if data is not None:
        config.data.directory = str(data)
    task = open_task(config, path)
    model = task.build_model()
    read_weights(path / "model.safetensors", model, metadata=task.identity)
    engine = make_engine(device=device)  # type: ignore[arg-type]
    if quantize is not None:
        _quantize(model, quantize, engine, path)
    return Run(path, config, task, model.to(engine.device).eval(), engine)


def _quantize(model: Any, how: str, engine: Engine, path: Path) -> None:
    if how != "int8":
        raise UserError(f"quantize={how!r} is not one of int8.")
    if not model.quantizable:
        raise UserError(f"int8 is for Transformers, and the model of {path} is recurrent.")
    if engine.device.type != "cpu":
        raise UserError(f"int8 is for device=cpu, and this is {engine.device.type}.")
    int8.quantize(model)
