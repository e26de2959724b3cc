"""What a task is: all that the trainer, the commands and the page know of a model and its data."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from regard.config import Config, Decode
from regard.data.examples import Ids
from regard.data.lines import why_unreadable
from regard.data.source import Source
from regard.data.splits import SPLITS, Pair, Split
from regard.data.tokenizer import Tokenizer
from regard.decoding import stream_texts
from regard.nn import Trace
from regard.nn.randomness import seeded
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import require_memory
from regard.system.ranks import World
from regard.tasks.evaluation import Evaluation
from regard.tasks.generating import Generator
from regard.tasks.output_text import OutputText
from regard.tasks.request import Answer, Request, read_lines, unknown_refusal
from regard.training.gradients import Carried
from regard.training.loop import Batches
from regard.training.loss import Sums

if TYPE_CHECKING:
    from regard.tasks.check import SplitReport

MOST_COUNTED = 256
"""Epochs that are made to count their batches, before training begins."""

SHORT, LONG = 4, 24
"""An example to look into has at least and at most this many tokens."""


@dataclass(frozen=True)
class VerifyInputs:
    """Examples as the model of a task reads them, to check its equalities on."""

    sources: list[Ids]
    targets: list[Ids] | None = None
    """What a decoder reads beside each source; None where a model reads one sequence."""


class Task(ABC):
    """Joins data, model, loss, metrics and predictions; one file per task.

    It holds no state of a request: one task answers many requests at once, from threads. What it
    has read of the data it keeps, and never changes.
    """

    FILES: tuple[str, ...] = ("tokenizer.json",)
    """What a run keeps beside its weights to read text as they were trained to."""
    ACCURACY = "token_accuracy"
    """The metric that the share of right answers is."""

    generates = True
    """Whether outputs are generated token by token, so that decoding has options."""
    continues = False
    """Whether outputs go on from the lines that they are generated for."""
    request_options: tuple[str, ...] = ()
    """Which options of a request it takes, of those that not every task takes."""
    scores_outputs = False
    """Whether evaluation generates outputs, so that the way of decoding changes its metrics."""
    can_ensemble = False
    """Whether several models with the same files can generate an output together."""
    longest_output: int | float = math.inf
    """How many tokens its model can read or generate at most."""

    tokenizer: Tokenizer
    """The tokenizer of what goes in."""
    sources: Mapping[Split, Source]
    """Where the data of each split comes from."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    @abstractmethod
    def learn(cls, config: Config) -> "Task":
        """The task with its tokenizers and labels, learned from the training data."""

    @classmethod
    @abstractmethod
    def open(cls, config: Config, files: dict[str, str]) -> "Task":
        """The task of a run; files: the texts of FILES. ValueError if one is missing or broken."""

    @property
    @abstractmethod
    def files(self) -> dict[str, str]:
        """The texts of FILES, by name."""

    @property
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        """All tokenizers, that of what goes in first."""
        return (self.tokenizer,)

    @property
    def analysable(self) -> bool:
        """Whether outputs of an evaluation can be analysed as translations."""
        return False

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What the training data is: changed data has another one."""

    @property
    def held_out_fingerprints(self) -> dict[str, str]:
        """What the data of the other splits is, where it is not the file that is trained on."""
        train = self.sources["train"].name
        others = {split: source for split, source in self.sources.items() if source.name != train}
        return {split: source.fingerprint for split, source in others.items()}

    @abstractmethod
    def check_data(self) -> None:
        """Read all data once, so that a bad line is found now and not at the first evaluation."""

    def data_report(self) -> "dict[Split, SplitReport]":
        """What is in each split, line by line; refused where data is not read line by line."""
        raise UserError(
            f"data check is for data with one example per line; task={self.config.task} reads "
            f"running text."
        )

    @abstractmethod
    def warnings(self, splits: Iterable[Split] = SPLITS) -> list[str]:
        """One sentence on each thing in the data of these splits that cannot be read as it is."""

    @abstractmethod
    def new_model(self) -> nn.Module:
        """The model that the configuration describes."""

    def build_model(self, *, copies: int = 1) -> Any:
        """A new model whose weights are initialised by the seed of the configuration.

        copies: how many numbers of 32 bits there must be memory for, per weight: 4 in training,
        with its gradient and two averages of the optimiser.
        """
        with torch.device("meta"):  # shapes alone
            weights = sum(weight.numel() for weight in self.new_model().parameters())
        require_memory(
            4 * copies * weights,
            what=f"A model of {weights:,} weights",
            remedy="a smaller model.d_model or model.n_layers",
        )
        with seeded(self.config.seed):  # whoever opens a run keeps their own randomness
            return self.new_model()

    @abstractmethod
    def batches(self) -> Batches:
        """The training batches."""

    def steps(self, *, epochs: int, accumulate: int) -> int:
        """Updates in so many epochs; past a curriculum, they are all of about one size.

        In a curriculum of very many epochs, neighbours are of about one size as well: only some
        are made to be counted, and each stands for those up to the next.
        """
        batches, growing = self.batches(), self.config.data.curriculum
        different = 1 if self.config.training.batch_size else min(epochs, growing + 1)
        counted = [*range(0, different - 1, math.ceil(different / MOST_COUNTED)), different - 1]
        ends = [*counted[1:], epochs]
        total = sum(
            (end - epoch) * batches.count(epoch) for epoch, end in zip(counted, ends, strict=True)
        )
        return max(1, math.ceil(total / accumulate))

    @abstractmethod
    def loss(self, model: Callable[..., Any], batch: Any, carried: Carried) -> Sums:
        """The summed loss over a batch's targets; carried: what the batch before left for it."""

    def means(self, sums: Sums) -> dict[str, float]:
        """Loss and fraction of right answers, by the names of their metrics."""
        return sums.means(self.ACCURACY)

    @abstractmethod
    def evaluate(
        self,
        model: Any,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The metrics on a split.

        decode: how outputs are generated; as the configuration says if not given.
        metrics: those that are needed, others may be left out; None: all.
        world: the processes that share the work, and all come to the same; None: this one alone.
        """

    @abstractmethod
    def predict(self, model: Any, request: Request, *, engine: Engine) -> Answer:
        """One prediction per line, in order; every line is read before the first is predicted."""

    def prompts(self, request: Request) -> list[Ids]:
        """The token ids that outputs are generated for, of lines that can be read."""
        return list(read_lines(request, self.tokenizer, self.refusal).ids.values())

    def generator(
        self, model: Any, request: Request, engine: Engine
    ) -> tuple[Generator, OutputText]:
        """What generates the outputs of a request, and how these become text."""
        raise UserError(f"task={self.config.task} does not generate text.")

    def stream(self, model: Any, request: Request, *, engine: Engine) -> Iterator[str]:
        """The output for a request of one line, piece by piece, as it is generated.

        A language model goes on from the line, which is not among the pieces.
        """
        generator, text = self.generator(model, request, engine)
        steps = generator.steps(self.prompts(request), numbers=[request.first])
        for _, piece in stream_texts(steps, text, stop=request.stop):
            yield piece

    def refusal(self, line: str, ids: Ids) -> str | None:
        """Why the model cannot read a line with these token ids; None if it can.

        Subwords are made for any text, and what they lack is <unk>; where tokens are words or
        characters, an unknown one is more likely a mistake. Not so in translation: sentences have
        words that no training text had. Whatever is read as <unk> is counted.
        """
        whole = self.config.tokenizer.kind in ("words", "chars")
        if whole and self.config.data.scores != "translation":
            return unknown_refusal(self.tokenizer, line, ids)
        return None

    def read_one(self, text: str, *, where: str) -> Ids:
        """The token ids of one text, which must be readable."""
        fault = why_unreadable(text)
        if fault is not None:
            raise UserError(f"{where}: {fault}.")
        (ids,) = self.tokenizer.encode([text])
        fault = self.refusal(text, ids)
        if fault is not None:
            raise UserError(f"{where}: {fault}")
        return ids

    @abstractmethod
    def trace(
        self,
        model: Any,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes for one text, put into a trace.

        output: the output that it reads as its own, where it generates one; None: what it
        generates.
        """

    @abstractmethod
    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        """Some of `pairs` as the model reads them, to check its equalities on."""

    @abstractmethod
    def pairs(self, split: Split) -> list[Pair]:
        """What goes in and what should come out, of every example of a split."""

    @abstractmethod
    def example(self, fits: Callable[[str], bool]) -> str | None:
        """The first test input that fits and is of a size to look into, if there is one."""

    def first_to_show(self, texts: Iterable[str], fits: Callable[[str], bool]) -> str | None:
        """The first that fits, is neither trivial nor too large to draw, and has no <unk>."""
        for text in texts:
            (ids,) = self.tokenizer.encode([text])
            if SHORT <= len(ids) <= LONG and self.tokenizer.unknown not in ids and fits(text):
                return text
        return None

    @property
    def identity(self) -> dict[str, str]:
        """What weights belong to: hashes of their files and of their model's configuration, and
        the values of the other keys that predictions depend on.
        """
        # Without defaults: a key that is added later changes nothing for weights made before it.
        model = self.config.model.model_dump_json(
            exclude={"cell", "dropout", "attention_dropout", "size", "zero_init"},
            exclude_defaults=True,
        )
        texts = {name.partition(".")[0]: text for name, text in self.files.items()}
        texts["model configuration"] = model
        hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
        return hashes | identity_keys(self.config)


IDENTITY_KEYS = (
    ("tokenizer", "kind"),  # with data.scores: whether a line with an unknown word is refused
    ("tokenizer", "joint"),  # which tokenizer the target has
    ("data", "scores"),
    ("data", "max_length"),  # which lines are refused, and how many positions there are
    ("data", "held_out"),  # which lines of a file were not trained on
    ("data", "split_seed"),
)
"""The keys, beside those of `model` and `decode`, that what a run predicts and measures depends on.

Those that say where data comes from are not among them: a run may be evaluated on other data.
"""


TASK_KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "tag": (("data", "scheme"), ("data", "unit")),
    "span": (
        ("data", "stride"),
        ("data", "max_answer_length"),
        ("data", "no_answer"),
        ("data", "null_threshold"),
    ),
}
"""The same of one task alone."""


def identity_keys(config: Config) -> dict[str, str]:
    """The values of these keys, by their full names."""
    return {
        f"{section}.{key}": str(getattr(getattr(config, section), key))
        for section, key in (*IDENTITY_KEYS, *TASK_KEYS.get(config.task, ()))
    }
