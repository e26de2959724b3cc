"""What pre-training is worth: text classifiers trained in several ways on few and many labels.

No method sees the data it is measured on: none chooses its weights by it, and the settings below
are the same for all sizes but the number of updates.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from regard import config as configuration
from regard.runs.configuring import configure
from regard.runs.trainer import train
from regard.studies.few_labels import LabelledData
from regard.studies.training import Cell, Trained, trained_before
from regard.system.engine import Engine
from regard.system.errors import UserError

METRIC = "accuracy"
BATCH = 32
LEAST_UPDATES = 150
"""With few labels: an epoch would be a single update (Mosbach et al. 2021, §6, train longer)."""
TIMES_FROM_SCRATCH = 4
"""New weights have further to go, and small models are fast."""
SEVERAL_SEEDS_BELOW = 1_000
"""With fewer labels than this, which ones they are decides much: several seeds are needed."""
PROBED, PROBES = 256, 6
"""The examples and updates by which the speed of a method is measured."""
COMMON = (
    "train.accumulate=1",
    "train.schedule=linear",
    "train.label_smoothing=0",
    "train.average=1",
    "train.ema=0",
    "train.patience=null",
    "train.keep=1",
    "train.metric=loss",
    "train.optimizer=adamw",
    "train.weight_decay=0.01",
)
SCRATCH = ("tokenizer.kind=words", "tokenizer.vocab_size=20000", "tokenizer.lowercase=true")


@dataclass(frozen=True)
class Method:
    """A way to train a classifier."""

    title: str
    settings: tuple[str, ...]
    epochs: int = 3
    pretrained: bool = False
    """Whether it begins with the weights of another run."""


METHODS = {
    "bag": Method(
        "bag of words",
        (*SCRATCH, "model.kind=bag", "model.pooling=final", "model.d_model=64", "train.lr=0.003"),
        epochs=4,
    ),
    "lstm": Method(
        "LSTM",
        (
            *SCRATCH,
            "model.kind=lstm",
            "model.pooling=max",
            "model.d_model=128",
            "model.n_layers=1",
            "model.bidirectional=true",
            "model.dropout=0.3",
            "train.lr=0.002",
        ),
        epochs=4,
    ),
    "scratch": Method(
        "Transformer from scratch",
        (
            *SCRATCH,
            "model.kind=transformer",
            "model.pooling=mean",
            "model.d_model=128",
            "model.n_layers=2",
            "model.n_heads=4",
            "model.d_ff=256",
            "model.norm=pre",
            "model.positions=sinusoidal",
            "model.dropout=0.2",
            "train.lr=0.0005",
        ),
        epochs=4,
    ),
    "frozen": Method(
        "frozen body, linear head",
        (
            "train.freeze=body",
            "model.pooling=mean",
            "model.dropout=0",
            "model.attention_dropout=0",
            "train.lr=0.01",
        ),
        pretrained=True,
    ),
    "contrastive": Method(
        "contrastive body, linear head",
        (
            "train.contrastive=true",
            "model.pooling=mean",
            "train.lr=0.00005",
            "train.lr_scale=output=100",
        ),
        epochs=1,
        pretrained=True,
    ),
    "fine-tuned": Method(
        "fine-tuned",
        (
            "model.pooling=mean",
            "train.lr=0.0001",
            "train.layer_decay=0.9",
            "train.lr_scale=output=10",
        ),
        epochs=2,
        pretrained=True,
    ),
}
"""What is compared, by the names that choose among them.

Contrastive: Tunstall et al. 2022 (SetFit), with all pairs of a batch in place of sampled ones.
"""
SIZES: tuple[int | None, ...] = (16, 100, 1_000, 10_000, None)
"""Labelled examples; None: all."""


@dataclass(frozen=True)
class Planned:
    """One training of the study."""

    method: str
    labels: int
    size: int | None
    seed: int
    cell: Cell

    @property
    def updates(self) -> int:
        return self.cell.config.training.steps or 0


@dataclass
class Study:
    """Which trainings there are, how long they take, and what they came to."""

    recipe: str
    out: Path
    settings: Sequence[str] = ()
    """Beside the recipe: where its data is."""
    init: str = ""
    """The run that the pretrained methods begin with."""
    methods: Sequence[str] = tuple(METHODS)
    sizes: Sequence[int | None] = SIZES
    seeds: int = 5
    engine: Engine = field(default_factory=Engine)

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in METHODS:
                raise UserError(f"There is no method {name!r}; there are {', '.join(METHODS)}.")
            if METHODS[name].pretrained and not self.init:
                raise UserError(
                    f"The method {name} begins with a trained encoder: name its run, as in "
                    f"--init runs/minilm, or choose others with --methods."
                )

    @cached_property
    def data(self) -> LabelledData:
        config = configuration.load(self.recipe, self.settings)
        if config.task != "classify":
            raise UserError(f"This study is of task=classify; {self.recipe} is {config.task}.")
        return LabelledData(config, self.out / "data")

    @cached_property
    def planned(self) -> list[Planned]:
        """Every training, the smallest first."""
        return [
            self._planned(method, size, seed)
            for size in self.sizes
            for method in self.methods
            for seed in range(1, 1 + self._seeds_of(size))
        ]

    def _seeds_of(self, size: int | None) -> int:
        return self.seeds if size is not None and size < SEVERAL_SEEDS_BELOW else 1

    def _planned(self, method: str, size: int | None, seed: int) -> Planned:
        labels, chosen = self.data.labels if size is None else size, METHODS[method]
        least = LEAST_UPDATES * (1 if chosen.pretrained else TIMES_FROM_SCRATCH)
        updates = max(least, math.ceil(chosen.epochs * labels / BATCH))
        shown = "all" if size is None else str(size)
        settings = [*self.data.settings(size, seed), f"seed={seed}"]
        config = self._configured(method, settings, updates=updates, batch=min(BATCH, labels))
        return Planned(method, labels, size, seed, Cell(f"{method}-{shown}-seed{seed}", config))

    def _configured(
        self, method: str, settings: Sequence[str], *, updates: int, batch: int
    ) -> configuration.Config:
        chosen = METHODS[method]
        length = [f"train.steps={updates}", f"train.batch_size={batch}"]
        length += [f"train.warmup={updates // 10}", f"train.eval_every={updates}"]
        init = [f"init={self.init}"] if chosen.pretrained else []
        return configure(
            self.recipe, [*self.settings, *COMMON, *settings, *length, *init, *chosen.settings]
        )

    def left(self) -> list[Planned]:
        """What is still to be trained."""
        return [one for one in self.planned if trained_before(one.cell, self.out) is None]

    def minutes(self, say: Callable[[str], None]) -> dict[str, float]:
        """How long each training that is left will take, by its name, from a few updates of each.

        What a run needs beside its updates (to open, to write, to evaluate) is in it.
        """
        estimates: dict[str, float] = {}
        for method in self.methods:
            cells = [one for one in self.left() if one.method == method]
            if not cells:
                continue
            say(f"Measuring the speed of: {METHODS[method].title}")
            per_row, beside = self._probe(method)
            for one in cells:
                rows = one.updates * min(BATCH, one.labels)
                estimates[one.cell.name] = (beside + rows * per_row) / 60
        return estimates

    def _probe(self, method: str) -> tuple[float, float]:
        """Seconds per row in training, and seconds that a run takes beside that."""
        labels = min(PROBED, self.data.labels)
        settings = self.data.settings(labels, 1)
        held_out = [f"data.{split}={labels}-seed1.jsonl" for split in ("valid", "test")]
        config = self._configured(
            method, [*settings, *held_out], updates=PROBES, batch=min(BATCH, labels)
        )
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=self.out) as folder:
            run, _ = train(config, Path(folder) / "probe", engine=self.engine, say=_silent)
            seconds = run.metrics()[-1]["seconds"]
        per_row = seconds / (PROBES * min(BATCH, labels))
        return per_row, time.perf_counter() - began - seconds


def _silent(sentence: str) -> None:
    """A probe has nothing to tell."""


@dataclass(frozen=True)
class Summary:
    """A method with so many labels: the mean over seeds, and their standard deviation."""

    method: str
    size: int | None
    labels: int
    values: tuple[float, ...]
    minutes: float
    """The mean of a training."""
    parameters: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "method": self.method,
            "labels": self.labels,
            METRIC: self.mean,
            "spread": self.spread,
            "seeds": len(self.values),
            "values": list(self.values),
            "minutes": self.minutes,
            "parameters": self.parameters,
        }


def summaries(results: Sequence[tuple[Planned, Trained]]) -> list[Summary]:
    """The results of all seeds together, in the order of methods and sizes."""
    return list(_summaries(results))


def _summaries(results: Sequence[tuple[Planned, Trained]]) -> Iterator[Summary]:
    for method in METHODS:
        for labels in sorted({one.labels for one, _ in results if one.method == method}):
            chosen = [pair for pair in results if pair[0].method == method]
            same = [pair for pair in chosen if pair[0].labels == labels]
            yield Summary(
                method,
                same[0][0].size,
                labels,
                tuple(result.value for _, result in same),
                statistics.fmean(result.minutes for _, result in same),
                same[0][1].parameters,
            )
