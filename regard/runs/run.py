"""Run: what `regard.load(path)` returns. A trained model with all that it needs to be used."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from regard import config as configuration
from regard.config import Config, Decode
from regard.config.strategy import implied_strategy
from regard.data.splits import Split
from regard.data.tokenizer import Tokenizer
from regard.decoding import Ensemble
from regard.metrics.analysis import Translated
from regard.models import Transformer
from regard.nn import Trace, int8
from regard.pretrained import ctranslate2, onnx
from regard.runs.directory import open_task, read_config, read_metrics
from regard.system.engine import Engine, make_engine
from regard.system.errors import UserError
from regard.system.files import saying_what_failed, writing
from regard.system.tensors import read_weights
from regard.tasks import Prediction, Task
from regard.tasks.asked import Asked
from regard.tasks.translate import Translate

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

    @property
    def tokenizer(self) -> Tokenizer:
        return self.task.tokenizer

    def predict(self, lines: Sequence[str], **decoding: Any) -> list[str]:
        """The best output for each line; `beam=5` and the like as in the configuration."""
        return [one.text for one in self.predictions(lines, decoding=decoding)]

    def predictions(
        self,
        lines: Sequence[str],
        *,
        decoding: dict[str, Any] | None = None,
        name: str = "line",
        first: int = 0,
        prefix: str = "",
        aligned: bool = False,
        refused: Callable[[str], None] | None = None,
    ) -> list[Prediction]:
        """The n_best outputs for each line, with their scores; `Asked` says what can be asked."""
        asked = Asked(
            lines,
            self.decode_options(decoding or {}),
            name=name,
            first=first,
            prefix=prefix,
            aligned=aligned,
            refused=refused,
        )
        return self.task.predict(self.model, asked, engine=self.engine)

    def together_with(self, others: Sequence["Run"]) -> "Run":
        """A run whose outputs are written by the models of all of these: they have one vocabulary.

        Its weights are not changed, and its own tokenizers and ways of decoding are used.
        """
        for other in others:
            if other.config.task != "translate" or self.config.task != "translate":
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
        return replace(self, model=Ensemble(models) if others else self.model)

    def decode_options(self, changes: dict[str, Any]) -> Decode:
        """The run's way of decoding, with changes; to name a beam is to ask for beam search."""
        if not self.task.WRITES:
            ignored = sorted(changes.keys() - {"n_best"})
            if ignored:
                raise UserError(f"{ignored[0]} is for runs that write; {self.path} classifies.")
            changes = {"beam": changes["n_best"]} | changes if changes else {}
        strategy = implied_strategy(changes, self.config.decode.strategy)
        values = self.config.model_dump()
        values["decode"] |= strategy | changes
        return configuration.validate(values, where=str(self.path)).decode

    def evaluate(
        self, split: Split = "test", *, outputs: list[Translated] | None = None, **decoding: Any
    ) -> dict[str, Any]:
        """The scores on a split, as `regard evaluate --json` prints them.

        outputs: is given every source, target and output, to be looked into.
        """
        if decoding and not self.task.SCORES_OUTPUTS:
            raise UserError(
                f"{min(decoding)} changes no score of task={self.config.task}, which are made "
                f"without writing outputs."
            )
        self.config.data.require(split)
        signatures = self.task.signatures()  # first, for it may want a package that is not there
        began = time.perf_counter()
        examples, metrics = self.task.evaluate(
            self.model,
            split,
            engine=self.engine,
            decode=self.decode_options(decoding),
            outputs=outputs,
        )
        return {
            "task": self.config.task,
            "recipe": self.config.recipe,
            "split": split,
            "examples": examples,
            "seconds": round(time.perf_counter() - began, 3),
            "metrics": metrics | signatures,
        }

    def export(self, to: str, folder: str | Path) -> None:
        """Write the model for another engine: to="ctranslate2" or "onnx"."""
        folder = Path(folder)
        if to not in EXPORTERS:
            raise UserError(f"to={to!r} is not one of {', '.join(EXPORTERS)}.")
        if not isinstance(self.task, Translate):
            raise UserError(f"{to} is for task=translate; this run's is {self.config.task}.")
        if isinstance(self.model, Ensemble):
            raise UserError("An ensemble cannot be exported: export its runs one by one.")
        if any(isinstance(part, int8.Int8Linear) for part in self.model.modules()):
            raise UserError("What is exported is in full precision: open the run without quantize.")
        if folder.exists():
            raise UserError(f"{folder} exists already; choose another folder.")
        tokenizers = (self.task.tokenizer, self.task.target_tokenizer)
        with saying_what_failed(folder):
            folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with writing(folder) as aside:
            longest = max(1024, self.config.data.max_length + 1, self.config.decode.max_new_tokens)
            EXPORTERS[to](self.model, tokenizers, aside, longest=longest)

    def trace(self, text: str) -> Trace:
        """Attention of every layer and head, masks and shapes, by readable path."""
        return self.task.trace(self.model, text, engine=self.engine)

    def notices(self) -> list[str]:
        """What could not be read or written as it should be, a sentence each."""
        return self.task.notices()

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return read_metrics(self.path)


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


def _quantize(model: nn.Module, how: str, engine: Engine, path: Path) -> None:
    if how != "int8":
        raise UserError(f"quantize={how!r} is not one of int8.")
    if not isinstance(model, Transformer):
        raise UserError(f"int8 is for Transformers, and the model of {path} is recurrent.")
    if engine.device.type != "cpu":
        raise UserError(f"int8 is for device=cpu, and this is {engine.device.type}.")
    int8.quantize(model)
