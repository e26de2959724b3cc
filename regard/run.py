"""The run directory: create, open, load; what `regard.load(path)` returns.

config.yaml         the resolved configuration
tokenizer.json      how text becomes ids; its hash stands in the weights' file
model.safetensors   the best weights
checkpoints/step-N/ weights, optimiser, progress, and a manifest of their hashes
metrics.jsonl       a line an evaluation
"""

import contextlib
import json
import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import config as configuration
from regard.config import Config, Decode
from regard.data.synthetic import Split
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models import EncoderDecoder
from regard.nn import Trace
from regard.tasks import TASKS, Prediction, Translate
from regard.training.callbacks import Evaluate, SaveCheckpoints, StopOnSignal
from regard.training.checkpoint import load_checkpoint
from regard.training.engine import Engine, make_engine
from regard.training.files import read_weights, weights, write_tensors, write_text, writing
from regard.training.loop import Loop, Progress
from regard.training.optimisers import make_optimiser
from regard.training.progress import ShowProgress
from regard.training.schedules import make_schedule

MAY_CHANGE_ON_RESUME = {
    "train.steps",
    "train.epochs",
    "train.eval_every",
    "train.save_every",
    "train.keep",
    "train.patience",
}


@dataclass
class Run:
    """A trained model with all that it needs: `run.predict(["3 1 2"])`, `run.trace("3 1 2")`."""

    path: Path
    config: Config
    task: Translate
    model: EncoderDecoder
    engine: Engine

    @property
    def tokenizer(self) -> Tokenizer:
        return self.task.tokenizer

    def predict(self, lines: Sequence[str], **decoding: Any) -> list[str]:
        """The best output for each line; `beam=5` and the like as in the configuration."""
        return [one.text for one in self.predictions(lines, decoding=decoding)]

    def predictions(
        self, lines: Sequence[str], *, decoding: dict[str, Any] | None = None, name: str = "line"
    ) -> list[Prediction]:
        """The n_best outputs for each line, with their scores."""
        return self.task.predict(
            self.model, lines, engine=self.engine, decode=self.decode(decoding or {}), name=name
        )

    def decode(self, changes: dict[str, Any]) -> Decode:
        """The run's way of decoding, with changes; to name a beam is to ask for beam search."""
        beams = {"beam", "length_penalty", "n_best"} & changes.keys()
        strategy = {"strategy": "beam"} if beams and "strategy" not in changes else {}
        values = self.config.model_dump()
        values["decode"] |= strategy | changes
        return configuration.validate(values, where=str(self.path)).decode

    def evaluate(self, split: Split = "test", **decoding: Any) -> dict[str, Any]:
        """The scores on a split, as `regard evaluate --json` prints them."""
        began = time.perf_counter()
        examples, metrics = self.task.evaluate(
            self.model, split, engine=self.engine, decode=self.decode(decoding)
        )
        return {
            "task": self.config.task,
            "recipe": self.config.recipe,
            "split": split,
            "examples": examples,
            "seconds": round(time.perf_counter() - began, 3),
            "metrics": metrics,
        }

    def trace(self, text: str) -> Trace:
        """Attention of every layer and head, masks and shapes, by readable path."""
        return self.task.trace(self.model, text, engine=self.engine)

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return _metrics(self.path)


def load(path: str | Path, *, device: str = "cpu", data: str | Path | None = None) -> Run:
    """Open a run directory: its configuration, tokenizer and best weights."""
    path = Path(path)
    config = _config(path)
    task = _task(config, path, data)
    model = task.build_model()
    read_weights(path / "model.safetensors", model, metadata=_metadata(task))
    engine = make_engine(device=device)  # type: ignore[arg-type]
    return Run(path, config, task, model.to(engine.device).eval(), engine)


def train(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    engine: Engine | None = None,
    data: str | Path | None = None,
) -> tuple[Run, str | None]:
    """Train into a run directory; the run, and why it stopped early if it did."""
    out = Path(out)
    engine = engine or make_engine()
    directory = None if data is None else Path(data)
    if resume:
        config = _resumed(config, out)
        task = _task(config, out, data)
    else:
        _refuse_to_overwrite(out)
        task = TASKS[config.task](config, directory=directory)
        _create(out, config, task)
    model = task.build_model().to(engine.device)
    settings = config.train
    steps = settings.steps or _steps(
        task, epochs=settings.epochs or 1, accumulate=settings.accumulate
    )
    optimiser = make_optimiser(
        model, name=settings.optimizer, lr=settings.lr, weight_decay=settings.weight_decay
    )
    checkpoints = SaveCheckpoints(
        out / "checkpoints", settings.save_every, settings.keep, metadata=_metadata(task)
    )
    loop = Loop(
        model,
        task.batches(),
        task.loss,
        optimiser,
        make_schedule(
            settings.schedule,
            lr=settings.lr,
            warmup=settings.warmup,
            steps=steps,
            d_model=config.model.d_model,
        ),
        steps,
        engine=engine,
        accumulate=settings.accumulate,
        clip=settings.clip,
        seed=config.seed,
    )
    if resume:
        found = load_checkpoint(
            checkpoints.directory, model=model, optimiser=optimiser, metadata=checkpoints.metadata
        )
        loop.progress = Progress(**found)
        _forget_after(out, loop.progress.step)
    else:
        checkpoints.save(loop)  # so that a run that was started can always be resumed

    def scores() -> dict[str, float]:
        return task.evaluate(
            model, "valid", engine=engine, with_decoding=settings.metric == "exact_match"
        )[1]

    with (
        StopOnSignal() as signals,
        ShowProgress(steps=steps, done=loop.progress.step) as shown,
    ):
        evaluate = Evaluate(
            settings.eval_every,
            settings.metric,
            scores,
            lambda: _save_best(out, model, task),
            out / "metrics.jsonl",
            settings.patience,
            shown.evaluated,
        )
        loop.callbacks = [shown, signals, evaluate, checkpoints]
        if settings.patience is None or loop.progress.since_best < settings.patience:
            loop.run()
    if not (out / "model.safetensors").exists():
        _save_best(out, model, task)  # stopped before the first evaluation: the latest is the best
    read_weights(out / "model.safetensors", model, metadata=_metadata(task))
    return Run(out, config, task, model.eval(), engine), loop.stop_reason


def is_run(path: Path) -> bool:
    return (path / "config.yaml").is_file()


def _config(path: Path) -> Config:
    if not is_run(path):
        fault = "holds no run: config.yaml is missing" if path.is_dir() else "does not exist"
        raise UserError(f"{path} {fault}. Train one with: regard train RECIPE --out {path}")
    file = path / "config.yaml"
    return configuration.validate(configuration.read_yaml(file), where=str(file))


def _task(config: Config, path: Path, data: str | Path | None) -> Translate:
    tokenizer = Tokenizer.load(path / "tokenizer.json")
    return TASKS[config.task](config, tokenizer, directory=None if data is None else Path(data))


def _metadata(task: Translate) -> dict[str, str]:
    return {"tokenizer": task.tokenizer.hash}


def _save_best(out: Path, model: EncoderDecoder, task: Translate) -> None:
    with writing(out / "model.safetensors") as aside:
        write_tensors(aside, weights(model), metadata=_metadata(task))


def _refuse_to_overwrite(out: Path) -> None:
    if is_run(out):
        raise UserError(
            f"{out} already holds a run. Go on with it by --resume, choose another --out, or "
            f"remove the folder."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not empty; choose another --out.")


def _create(out: Path, config: Config, task: Translate) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out} cannot be made: {error.strerror}.") from None
    write_text(out / "tokenizer.json", task.tokenizer.json)
    write_text(out / "config.yaml", configuration.dump(config))


def _resumed(config: Config, out: Path) -> Config:
    """The configuration to go on with: the run's own, but for what may change on the way."""
    began = _config(out)
    changed = [
        key for key in configuration.differences(began, config) if key not in MAY_CHANGE_ON_RESUME
    ]
    if changed:
        raise UserError(
            f"{out} was started with another {', '.join(changed)}; a resumed run keeps what it "
            f"began with. Leave the change out, or train into another --out."
        )
    for leftover in [*out.glob(".*.part"), *(out / "checkpoints").glob(".*.part")]:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    if config != began:
        write_text(out / "config.yaml", configuration.dump(config))
    return config


def _steps(task: Translate, *, epochs: int, accumulate: int) -> int:
    """Updates in so many epochs; every epoch of a fixed set has as many batches."""
    total = sum(sum(1 for _ in task.batches().epoch(number)) for number in range(epochs))
    return max(1, math.ceil(total / accumulate))


def _metrics(path: Path) -> list[dict[str, Any]]:
    log = path / "metrics.jsonl"
    if not log.exists():
        return []
    found = []
    for line in log.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):  # a line that a kill cut short
            found.append(json.loads(line))
    return found


def _forget_after(path: Path, step: int) -> None:
    """Leave out of metrics.jsonl what will be made again."""
    kept = [line for line in _metrics(path) if line["step"] <= step]
    write_text(path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))
