"""What a task is: all that the trainer, the commands and the page know of a model and its data."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.config import Config, Decode
from regard.data.splits import Pair, Split
from regard.data.tokenizer import Tokenizer
from regard.metrics.analysis import Translated
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks.alignment import WordAlignment
from regard.tasks.asked import Asked
from regard.training.loop import Batches, Carried
from regard.training.loss import Sums

SHORT, LONG = 4, 24
"""Tokens of an example that is neither trivial nor too large to draw."""


@dataclass(frozen=True)
class Prediction:
    """What became of one line: the best output first; none for an empty line."""

    input: str
    outputs: list[str]
    scores: list[float]
    alignment: WordAlignment | None = None
    """Of the best output, where it was asked for."""
    finished: list[bool] | None = None
    """Whether each output ended by itself, and was not cut; nothing for a class."""

    @property
    def text(self) -> str:
        return self.outputs[0] if self.outputs else ""


class Task(ABC):
    """Joins data, model, loss, metric and prediction; one file a task."""

    FILES: tuple[str, ...] = ("tokenizer.json",)
    """What a run keeps beside its weights to read text as they were trained to."""
    ACCURACY = "token_accuracy"
    """What the share of right answers is called."""

    SCORES_OUTPUTS = False
    """Whether evaluation writes outputs and scores them, so that the way of decoding matters."""
    longest_output: int | float = math.inf
    """Tokens that its model can read or write at most."""
    WRITES = True
    """Whether outputs are written token by token, so that there is a way of decoding to choose."""

    tokenizer: Tokenizer
    """Of what goes in."""

    def __init__(self, config: Config, files: dict[str, str] | None = None) -> None:
        """files: the texts of FILES, of a run that is opened; made from the data if not given."""
        self.config = config

    @property
    @abstractmethod
    def files(self) -> dict[str, str]:
        """The texts of FILES, by name."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What the training data is: changed data has another one."""

    @abstractmethod
    def check_data(self) -> None:
        """Read all data once, so that a bad line is found now and not at the first evaluation."""

    @abstractmethod
    def notices(self) -> list[str]:
        """A sentence on all that could not be read or written as it should be: none in silence."""

    @abstractmethod
    def new_model(self) -> nn.Module:
        """The model that the configuration asks for."""

    def build_model(self) -> Any:
        """The same, its weights drawn from the seed."""
        with torch.random.fork_rng(devices=[]):  # whoever opens a run keeps their own randomness
            torch.manual_seed(self.config.seed)
            return self.new_model()

    @abstractmethod
    def batches(self) -> Batches:
        """The training batches."""

    def steps(self, *, epochs: int, accumulate: int) -> int:
        """Updates in so many epochs; past a curriculum, they are all of about one size."""
        batches, growing = self.batches(), self.config.data.curriculum
        counted = 1 if self.config.training.batch_size else min(epochs, growing + 1)
        counts = [batches.count(epoch) for epoch in range(counted)]
        total = sum(counts) + (epochs - counted) * counts[-1]
        return max(1, math.ceil(total / accumulate))

    @abstractmethod
    def loss(self, model: Callable[..., Any], batch: Any, carried: Carried) -> Sums:
        """Summed loss over the targets of a batch; carried: what the last one left for this."""

    def means(self, sums: Sums) -> dict[str, float]:
        """Loss and share of right answers, by the names that this task gives them."""
        return {"loss": sums.mean_loss, self.ACCURACY: sums.accuracy}

    @abstractmethod
    def evaluate(
        self,
        model: Any,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        written: Collection[str] | None = None,
        outputs: list[Translated] | None = None,
    ) -> tuple[int, dict[str, float]]:
        """How many examples there are, and the scores on them.

        written: the scores of written outputs that are needed, others may be left out; None: all.
        outputs: is given what was written, to be looked into.
        """

    def signatures(self) -> dict[str, str]:
        """How scores were made, where a score is not to be compared without."""
        return {}

    @abstractmethod
    def predict(self, model: Any, asked: Asked, *, engine: Engine) -> list[Prediction]:
        """A prediction a line, in order; every line is checked before the first is predicted."""

    @abstractmethod
    def trace(self, model: Any, text: str, *, engine: Engine) -> Trace:
        """Everything that the model computes for one text."""

    @abstractmethod
    def pairs(self, split: Split) -> list[Pair]:
        """What goes in and what should come out, of every example of a split."""

    @abstractmethod
    def example(self, fits: Callable[[str], bool]) -> str | None:
        """The first test input that fits, of a size to look into, if there is one."""

    def first_to_show(self, texts: Iterable[str], fits: Callable[[str], bool]) -> str | None:
        """The first that fits, is neither trivial nor too large to draw, and has no <unk>."""
        for text in texts:
            length = len(self.tokenizer.encode([text])[0])
            if SHORT <= length <= LONG and self.tokenizer.unknown(text) is None and fits(text):
                return text
        return None

    @property
    def identity(self) -> dict[str, str]:
        """What weights belong to: hashes of their files and of their model's configuration."""
        # Without defaults: a key that is added later changes nothing for weights made before it.
        model = self.config.model.model_dump_json(
            exclude={"cell", "dropout", "attention_dropout"}, exclude_defaults=True
        )
        texts = {name.removesuffix(".json"): text for name, text in self.files.items()}
        texts["model configuration"] = model
        return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def refuse_unknown(token: str | None, known: str, *, where: str) -> None:
    """Say which token a run has never seen, if there is one."""
    if token is not None:
        raise UserError(
            f"{where}: {token[:40]!r} is not in the vocabulary of this run, which knows {known}."
        )


def unknown_tokens(where: str, unknown: int, tokens: int) -> list[str]:
    """A sentence on the tokens of a text that have no id of their own, if there are any."""
    if not unknown:
        return []
    count = f"{unknown:,} of {tokens:,} tokens"
    return [f"{where}: {count} are not in the vocabulary, and are read as <unk>."]
