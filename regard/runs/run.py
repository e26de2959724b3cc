"""Run: what `regard.load(path)` returns. A model with all that it needs to be used."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard import config as configuration
from regard.config import Config, Decode
from regard.config.faults import did_you_mean
from regard.config.strategy import implied_strategy
from regard.data.splits import SPLITS, Split
from regard.data.tokenizer import Tokenizer
from regard.decoding import Ensemble
from regard.models.text_embedder import Pool
from regard.nn import Trace, int8
from regard.pretrained import ctranslate2, hf_export, onnx
from regard.runs.directory import open_task, read_config, read_metrics
from regard.system.engine import Engine, make_engine
from regard.system.errors import UserError
from regard.system.files import saying_what_failed, writing
from regard.system.tensors import read_weights
from regard.tasks import TASKS, Answer, Evaluation, Prediction, Request, Task
from regard.tasks.embedding import Embedder, OnLong, embedder_of
from regard.tasks.task import identity_keys

Export = Callable[[Any, Any, Path], None]
"""(model, task, folder): writes the model there."""


def _of_pairs(export: Callable[..., None]) -> Export:
    """The export of an encoder-decoder, for lines that are as long as a run may have them."""

    def write(model: Any, task: Task, folder: Path) -> None:
        config = task.config
        longest = max(1024, config.data.max_length + 1, config.decode.max_new_tokens)
        export(model, task.tokenizers, folder, longest=longest)

    return write


EXPORTERS: dict[str, Export] = {
    "hf": hf_export.export,
    "ctranslate2": _of_pairs(ctranslate2.export),
    "onnx": _of_pairs(onnx.export),
}
"""What writes a model, by the name of the engine or the format."""


FIXED_DATA_KEYS = ("data.scores", "data.held_out", "data.split_seed", "data.sentence_pairs")
"""Keys of `data` that a trained run keeps: they decide what is measured, and on what."""

GUESSED = 4
"""How many tokens a draft model guesses ahead, if not said otherwise."""
ONE_BY_ONE = ("greedy", "sample", "contrastive")
"""The strategies whose outputs only grow, so that they can be shown token by token."""


@dataclass
class Run:
    """A model with all that it needs: `run.predict(["3 1 2"])`, `run.trace("3 1 2")`."""

    path: Path
    config: Config
    task: Task
    model: Any
    engine: Engine
    members: int = 1
    """How many models generate its outputs together."""
    quantized: bool = False
    """Whether its linear layers compute in 8 bits."""
    draft: Any = None
    """A smaller model that guesses tokens ahead, if there is one."""

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
        request = self._request(lines, decoding, **options)
        return self.task.predict(self.model, request, engine=self.engine)

    def _request(
        self, lines: Sequence[str], decoding: dict[str, Any] | None, **options: Any
    ) -> Request:
        """A request that this run's task can answer."""
        decode = self.decode_options(decoding or {})
        request = Request(lines, decode, draft=self.draft, **options)
        for option in request.special_options:
            if option not in self.task.request_options:
                tasks = [name for name, task in TASKS.items() if option in task.request_options]
                raise UserError(
                    f"{option} is for task={' or '.join(tasks)}; this run's task is "
                    f"{self.config.task}."
                )
        return request

    def embed(
        self,
        lines: Sequence[str],
        *,
        pool: Pool | None = None,
        normalize: bool | None = None,
        on_long: OnLong | None = None,
    ) -> Float[np.ndarray, "N D"]:
        """A vector per line; of an empty one, zeros.

        pool, normalize: as the run says if not given, or else the mean, divided by its length.
        on_long: a text that is too long is refused, or "cut", or read in "windows".
        """
        if isinstance(lines, str):
            raise TypeError("embed takes a list of lines, not one string")
        embedder = self.embedder(pool=pool, normalize=normalize, on_long=on_long)
        return embedder.vectors(embedder.read(lines).ids)

    def embedder(self, **options: Any) -> Embedder:
        """What makes vectors with this run's encoder; options: those of `embed`, or None."""
        where = str(self.path)
        return embedder_of(self.model, self.task, self.engine, where=where, options=options)

    def generate(self, prompt: str, *, stop: Sequence[str] = (), **decoding: Any) -> str:
        """The prompt with what the model generates after it; of a translator, its output.

        stop: texts at which it ends, and without which. decoding: `top_p=0.9` and the like.
        """
        (prediction,) = self.predictions([prompt], decoding=decoding, stop=stop, name="prompt")
        return prediction.best

    def stream(
        self,
        prompt: str,
        *,
        stop: Sequence[str] = (),
        choices: Sequence[str] = (),
        regex: str = "",
        **decoding: Any,
    ) -> Iterator[str]:
        """What is generated after the prompt, piece by piece, as it is generated."""
        options = {"stop": stop, "choices": choices, "regex": regex, "name": "prompt"}
        request = self._request([prompt], decoding, **options)
        if request.decode.strategy not in ONE_BY_ONE or request.decode.n_best > 1:
            raise UserError(
                f"strategy={request.decode.strategy} with n_best={request.decode.n_best} cannot be "
                f"shown token by token: use greedy search or one sample."
            )
        return self._streamed(request)

    def _streamed(self, request: Request) -> Iterator[str]:
        with torch.inference_mode(), self.engine.autocast():
            yield from self.task.stream(self.model, request, engine=self.engine)

    def drafted_by(self, other: "Run") -> "Run":
        """This run, with the model of another, smaller one to guess tokens ahead."""
        if other.task.files != self.task.files:
            raise UserError(
                f"{other.path} has another vocabulary than {self.path}: a draft model needs the "
                f"same tokenizer."
            )
        return replace(self, draft=other.model)

    def together_with(self, others: Sequence["Run"]) -> "Run":
        """A run whose outputs are generated by the models of all of these, with one vocabulary.

        Their probabilities are averaged; this run's tokenizers and decoding options are used.
        """
        for other in others:
            for run in (self, other):
                if not run.task.can_ensemble:
                    raise UserError(
                        f"{run.path} cannot be part of an ensemble: its task is {run.config.task}."
                    )
            if other.task.files != self.task.files:
                raise UserError(
                    f"{other.path} has another vocabulary than {self.path}: an ensemble "
                    f"needs the same tokenizers."
                )
            if other.task.longest_output < self.task.longest_output:
                raise UserError(
                    f"{other.path} has only {other.task.longest_output} positions, fewer "
                    f"than {self.path}: name it first."
                )
        models = [self.model, *(other.model for other in others)]
        return replace(self, model=Ensemble(models), members=len(models)) if others else self

    def decode_options(self, changes: dict[str, Any]) -> Decode:
        """The run's decoding options, with changes; to name a beam is to ask for beam search."""
        if not self.task.generates:
            ignored = sorted(changes.keys() - {"n_best"})
            if ignored:
                raise UserError(
                    f"{ignored[0]} is for runs that generate text; the task of {self.path} is "
                    f"{self.config.task}."
                )
            changes = {"beam": changes["n_best"]} | changes if changes else {}
        if self.draft is not None and not self.config.decode.speculate:
            changes = {"speculate": GUESSED} | changes
        strategy = implied_strategy(changes, self.config.decode.strategy)
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
                f"{min(decoding)} changes no metric of task={self.config.task}: its evaluation "
                f"generates no outputs."
            )
        self.config.data.require(split)
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
        } | ({"by_type": evaluation.by_type} if evaluation.by_type else {})

    def export(self, to: str, folder: str | Path) -> None:
        """Write the model for another engine: to="hf", "ctranslate2" or "onnx"."""
        folder = Path(folder)
        if to not in EXPORTERS:
            raise UserError(f"to={to!r} is not one of {', '.join(EXPORTERS)}.")
        if self.members > 1:
            raise UserError("An ensemble cannot be exported: export its runs one by one.")
        if to not in self.model.exports:
            raise UserError(f"A model of kind {self.config.model.kind} cannot be exported to {to}.")
        if self.quantized:
            raise UserError("A model is exported in full precision: open the run without quantize.")
        if folder.exists():
            raise UserError(f"{folder} exists already; choose another folder.")
        with saying_what_failed(folder):
            folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with writing(folder) as aside:
            EXPORTERS[to](self.model, self.task, aside)

    def trace(self, text: str, *, without: Sequence[str] = (), output: str | None = None) -> Trace:
        """Attention of every layer and head, masks and shapes, by readable path.

        without: what is turned off: layers, sub-layers, heads and edges, by their paths, as in
        "decoder.layers.1.cross_attention.heads.3" (see regard/nn/switches.py).
        output: the output that is read as the model's own; None: what it generates.
        """
        if self.members > 1:
            raise UserError("An ensemble cannot be traced: trace its runs one by one.")
        if output is not None and not self.task.generates:
            raise UserError(f"output is for tasks that generate text, not {self.config.task}.")
        if isinstance(without, str):
            raise TypeError("trace takes a list of paths to leave out, not one string")
        trace = Trace(without=without)
        self.task.trace(self.model, text, engine=self.engine, trace=trace, output=output)
        for name in trace.switches.unmet:
            raise UserError(
                f"without: nothing in this model is called {name!r}{did_you_mean(name, trace)}. "
                f"Name a path of the trace, or .heads.N or .edges.ROW.COLUMN of one that attends."
            )
        return trace

    def warnings(self, splits: Iterable[Split] = SPLITS) -> list[str]:
        """One sentence on each thing in the data of these splits that cannot be read as it is."""
        return self.task.warnings(splits)

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
    quantize: "int8" computes the linear layers of a Transformer in 8 bits: faster on a CPU.
    """
    path = Path(path)
    stored = read_config(path)
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if not key.startswith("data.") or key in FIXED_DATA_KEYS:
            raise UserError(
                f"-s {setting}: of a trained run, only the keys that say where its data comes "
                f"from can be changed."
            )
    config = configuration.override(stored, settings, where=str(path))
    if data is not None:
        config.data.directory = str(data)
    task = open_task(config, path)
    model = task.build_model()
    metadata = task.identity | identity_keys(stored)
    read_weights(path / "model.safetensors", model, metadata=metadata)
    engine = make_engine(device=device)
    if quantize is not None:
        _quantize(model, quantize, engine, path)
    model = model.to(engine.device).eval()
    return Run(path, config, task, model, engine, quantized=quantize is not None)


def _quantize(model: Any, how: str, engine: Engine, path: Path) -> None:
    if how != "int8":
        raise UserError(f"quantize={how!r} is not one of int8.")
    if not model.quantizable:
        raise UserError(f"The model of {path} cannot be computed in int8.")
    if engine.device.type != "cpu":
        raise UserError(f"int8 needs device=cpu, not {engine.device.type}.")
    int8.quantize(model)
