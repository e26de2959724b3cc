"""embed: a vector for a text."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.config import Config, Decode
from regard.config.keys import NOT_TRAINED
from regard.data.examples import Ids
from regard.data.frame import FRAME, framed
from regard.data.splits import SPLITS, Pair, Split
from regard.data.tokenizer import Tokenizer
from regard.models import TextEmbedder
from regard.models.build import text_embedder
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.ranks import World
from regard.tasks.embedding import embedder_of, positions, why_too_long
from regard.tasks.evaluation import Evaluation
from regard.tasks.prediction import Prediction
from regard.tasks.request import Answer, Request, read_lines
from regard.tasks.task import Task, VerifyInputs
from regard.training.gradients import Carried
from regard.training.loop import Batches
from regard.training.loss import Sums


@dataclass(frozen=True)
class Embedding(Prediction):
    """The vector of a text; its one output is the same numbers as text."""

    vector: list[float] = field(default_factory=list)

    def details(self) -> dict[str, Any]:
        return {"vector": self.vector}


class Embed(Task):
    """A pretrained encoder and a pooling: a vector per text, and nothing to train or measure.

    What is trained on pairs of texts is `match`; any run with an encoder gives vectors as well.
    """

    generates = False

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        super().__init__(config)
        self.tokenizer = tokenizer
        self.sources = {}

    @classmethod
    def learn(cls, config: Config) -> "Embed":
        raise UserError(f"{NOT_TRAINED}.")

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "Embed":
        return cls(config, Tokenizer.read(files, cls.FILES[0]))

    @property
    def files(self) -> dict[str, str]:
        return {self.FILES[0]: self.tokenizer.json}

    def new_model(self) -> TextEmbedder:
        vocab, padding = len(self.tokenizer), self.tokenizer.padding
        return text_embedder(self.config, vocab=vocab, padding=padding)

    @property
    def fingerprint(self) -> str:
        return ""

    def check_data(self) -> None:
        raise UserError(f"{NOT_TRAINED}.")

    def warnings(self, splits: Iterable[Split] = SPLITS) -> list[str]:
        return []

    def batches(self) -> Batches:
        raise UserError(f"{NOT_TRAINED}.")

    def loss(self, model: Callable[..., Any], batch: Any, carried: Carried) -> Sums:
        raise UserError(f"{NOT_TRAINED}.")

    def evaluate(
        self,
        model: TextEmbedder,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        raise UserError(
            "task=embed has nothing to measure its vectors against: evaluate a run of another "
            "task that was trained from this one (--init)."
        )

    def pairs(self, split: Split) -> list[Pair]:
        raise UserError(f"{NOT_TRAINED}.")

    def example(self, fits: Callable[[str], bool]) -> str | None:
        return None

    def predict(self, model: TextEmbedder, request: Request, *, engine: Engine) -> Answer:
        """The vector of each line; an empty line has none."""
        if request.decode.n_best > 1:
            raise UserError(f"n_best={request.decode.n_best}: a text has one vector.")
        read = read_lines(request, self.tokenizer, self.refusal)
        ids = {number: row for number, row in read.ids.items() if row}
        predictions: list[Prediction] = [Embedding(line) for line in request.lines]
        embedder = embedder_of(model, self, engine, where="This run")
        vectors = embedder.vectors(list(ids.values())).tolist()
        for number, vector in zip(ids, vectors, strict=True):
            shown = " ".join(f"{value:.6g}" for value in vector)
            predictions[number] = Embedding(request.lines[number], [shown], vector)
        return Answer(predictions, read.counts, read.refusals)

    def refusal(self, line: str, ids: Ids) -> str | None:
        return why_too_long(ids, positions(self.config) - FRAME)

    def trace(
        self,
        model: TextEmbedder,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes for one text."""
        row = framed(self.read_one(text, where="trace"), self.tokenizer.special)
        trace.tokens["source"] = trace.tokens["output"] = self.tokenizer.tokens(row)
        with torch.inference_mode():
            model(torch.tensor([row], device=engine.device), trace=trace)
        return trace

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        """Texts cut so that two positions are left for padding."""
        rows = self.tokenizer.encode([source for source, _ in pairs])
        most = max(0, positions(self.config) - FRAME - 2)
        return VerifyInputs([framed(row[:most], self.tokenizer.special) for row in rows])
