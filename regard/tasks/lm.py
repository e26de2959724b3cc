"""lm: the next token of a running text."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.config import Config, Decode
from regard.data.blocks import BlockBatch, BlockStream, blocks_in_order
from regard.data.examples import Ids
from regard.data.splits import SPLITS, Pair, Split
from regard.data.text import TextBatch, TextSource, TextStream
from regard.data.tokenizer import Tokenizer
from regard.models import GPT, RecurrentLanguageModel
from regard.models.build import language_model
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.ranks import World
from regard.tasks.evaluation import Evaluation
from regard.tasks.generating import after_prompt, count_generated, generate
from regard.tasks.prediction import GeneratedText, Prediction
from regard.tasks.request import Answer, Request, read_lines, unknown_warning
from regard.tasks.task import Task, VerifyInputs
from regard.training.gradients import Carried, sums_over_ranks
from regard.training.loss import Sums, token_sums

EVALUATED_CHUNK = 512
"""How many tokens a recurrent model reads at a time when evaluating."""
EVALUATED_TOGETHER = 8192
"""How many tokens a GPT reads at a time when evaluating."""

LanguageModel = GPT | RecurrentLanguageModel

Sources = dict[Split, TextSource]


@dataclass(frozen=True)
class SplitText:
    """The text of a split, shared by all requests; nothing changes it once it is read."""

    lines: tuple[str, ...]
    ids: Int[np.ndarray, "N"]
    """The whole text as token ids, `</s>` after each line."""


@dataclass(frozen=True)
class Continuation(GeneratedText):
    """A prompt with what the model generated after it."""


class LanguageModelling(Task):
    """A text, a language model, cross-entropy on each next token, perplexity.

    The text is one stream: its lines, each closed by `</s>`. A GPT is trained on blocks of it, each
    data.max_length tokens long, in random order. A recurrent model goes through it in chunks of
    that length; the state is carried from one to the next, the gradient is not (truncated
    back-propagation through time, Williams & Peng 1990).
    """

    sources: Sources

    def __init__(
        self, config: Config, tokenizer: Tokenizer, *, sources: Sources | None = None
    ) -> None:
        super().__init__(config)
        self.tokenizer = tokenizer
        self.sources = sources or _sources_of(config)
        self._reading = RLock()  # held while a text is read and kept: requests come from threads
        self._texts: dict[Split, SplitText] = {}

    @classmethod
    def learn(cls, config: Config) -> "LanguageModelling":
        sources = _sources_of(config)
        tokenizer = Tokenizer.train(
            sources["train"].lines(), kind=config.tokenizer.kind, **config.tokenizer.options
        )
        return cls(config, tokenizer, sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "LanguageModelling":
        return cls(config, Tokenizer.read(files, cls.FILES[0]))

    @property
    def files(self) -> dict[str, str]:
        return {self.FILES[0]: self.tokenizer.json}

    @property
    def fingerprint(self) -> str:
        return self.sources["train"].fingerprint

    def text(self, split: Split) -> SplitText:
        """The text of a split, read once."""
        with self._reading:
            if split not in self._texts:
                lines = self.sources[split].lines()
                rows, end = self.tokenizer.encode(lines), self.tokenizer.end
                ids = np.array([token for row in rows for token in (*row, end)])
                self._texts[split] = SplitText(tuple(lines), ids)
            return self._texts[split]

    def pairs(self, split: Split) -> list[Pair]:
        """The first half of each line, and the line."""
        lines = self.text(split).lines
        return [(line[: len(line) // 2], line) for line in lines if line.split()]

    def check_data(self) -> None:
        for split in SPLITS:
            self.text(split)

    def warnings(self, splits: Iterable[Split] = SPLITS) -> list[str]:
        unknown = -1 if self.tokenizer.unknown is None else self.tokenizer.unknown
        sentences: list[str] = []
        for split in splits:
            ids = self.text(split).ids
            sentences += unknown_warning(f"data.{split}", int((ids == unknown).sum()), len(ids))
        return sentences

    def new_model(self) -> LanguageModel:
        return language_model(
            self.config, vocab=len(self.tokenizer), padding=self.tokenizer.padding
        )

    def batches(self) -> TextStream | BlockStream:
        train, length = self.config.training, self.config.data.max_length
        rows = train.batch_size or max(1, (train.batch_tokens or 1) // length)
        if self.config.model.recurrent:
            return self._stream("train", rows=rows, length=length)
        return BlockStream(
            lambda: self.text("train").ids,
            rows=rows,
            length=length,
            ids=self.tokenizer.special,
            seed=self.config.seed,
        )

    def _stream(self, split: Split, *, rows: int, length: int) -> TextStream:
        special = self.tokenizer.special
        return TextStream(lambda: self.text(split).ids, rows=rows, length=length, ids=special)

    def _to_evaluate(self, split: Split) -> Iterator[TextBatch] | Iterator[BlockBatch]:
        """All of a split's text from left to right."""
        if self.config.model.recurrent:
            return self._stream(split, rows=1, length=EVALUATED_CHUNK).epoch(0)
        length = self.config.data.max_length
        return blocks_in_order(
            lambda: self.text(split).ids,
            rows=max(1, EVALUATED_TOGETHER // length),
            length=length,
            ids=self.tokenizer.special,
        )

    def loss(
        self, model: Callable[..., Any], batch: TextBatch | BlockBatch, carried: Carried
    ) -> Sums:
        """Σ −log p(next token | the text so far), smoothed as the configuration says."""
        smoothing = self.config.training.label_smoothing
        return self._sums(model, batch, carried, smoothing=smoothing)

    def _sums(
        self,
        model: Callable[..., Any],
        batch: TextBatch | BlockBatch,
        carried: Carried,
        *,
        smoothing: float,
    ) -> Sums:
        if isinstance(batch, TextBatch):
            logits = _going_on(model, batch, carried)
        else:
            logits = model(batch.source)
        return token_sums(
            logits,
            batch.target,
            tokens=batch.tokens,
            smoothing=smoothing,
            padding=self.tokenizer.special.ignored,
        )

    def evaluate(
        self,
        model: LanguageModel,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The metrics of a split's tokens, each of them predicted once.

        A recurrent model reads the text in one row, each token with all the text before it. A GPT
        reads blocks of data.max_length tokens, each after the end of the last: a token's context
        is what stands before it in its block, and the last token of the block before.
        """
        total, carried, world = Sums(), Carried(), world or World()
        with torch.inference_mode(), engine.autocast():
            for batch in _own_part(self._to_evaluate(split), world):
                sums = self._sums(model, batch.to(engine.device), carried, smoothing=0.0)
                total = total + sums
        total = sums_over_ranks(total, world)
        measured = self.means(total)
        measured["ppl"] = math.exp(min(measured["loss"], 700.0))
        characters = sum(len(line) + 1 for line in self.text(split).lines)  # a line's end is one
        bits = measured["loss"] * total.tokens / math.log(2)
        measured["bits_per_char"] = bits / characters
        return Evaluation(total.tokens, measured, warnings=self.warnings([split]))

    def predict(self, model: LanguageModel, request: Request, *, engine: Engine) -> Answer:
        """Each line continued to its end; an empty one is a new line.

        A prompt that is longer than the context is refused, or its last tokens alone are read. An
        output may be longer: see `GPT.step`.
        """
        refusal = super().refusal if request.decode.cut_prompt else self.refusal
        read = read_lines(request, self.tokenizer, refusal)
        prompts = [ids[int(max(0, len(ids) - self.longest_prompt)) :] for ids in read.ids.values()]
        generated = generate(
            model,
            prompts,
            after_prompt(
                model,
                engine.device,
                start=self.tokenizer.end,
                padding=self.tokenizer.special.filler,
            ),
            request.decode,
            engine,
            end=self.tokenizer.end,
            never=self.tokenizer.never_generated,
            numbers=[request.first + number for number in read.ids],
        )
        predictions: list[Prediction] = [Continuation(line) for line in request.lines]
        for (number, prompt), hypotheses in zip(read.ids.items(), generated, strict=True):
            predictions[number] = Continuation(
                request.lines[number],
                [self.tokenizer.decode([*prompt, *output.tokens]) for output in hypotheses],
                [output.score for output in hypotheses],
                [output.finished for output in hypotheses],
            )
        return Answer(predictions, read.counts + count_generated(generated), read.refusals)

    @property
    def longest_prompt(self) -> int | float:
        """How many tokens can be read before the first that is generated; before them is `</s>`."""
        return math.inf if self.config.model.recurrent else self.config.data.max_length - 1

    def refusal(self, line: str, ids: Ids) -> str | None:
        if len(ids) > self.longest_prompt:
            return (
                f"the text has {len(ids):,} tokens, and this model reads at most "
                f"{self.longest_prompt:,} (data.max_length). Shorten it, or pass --cut-prompt to "
                f"read its last tokens alone."
            )
        return super().refusal(line, ids)

    def trace(self, model: LanguageModel, text: str, *, engine: Engine) -> Trace:
        """Everything that the model computes while it reads a line, attention or gates among it."""
        ids = [self.tokenizer.end, *self.read_one(text, where="trace")]
        trace = Trace()
        trace.tokens["source"] = trace.tokens["target"] = self.tokenizer.tokens(ids)
        with torch.inference_mode():
            logits = _logits(model(torch.tensor([ids], device=engine.device), trace=trace))
        trace.tokens["output"] = self.tokenizer.tokens(logits[0].argmax(-1).tolist())
        return trace

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        """A line begins after the end of another; of a long one, the tokens that can be read."""
        rows = self.tokenizer.encode([source for source, _ in pairs])
        cut = [row[: int(min(self.longest_prompt, len(row)))] for row in rows]
        return VerifyInputs([[self.tokenizer.end, *row] for row in cut])

    def example(self, fits: Callable[[str], bool]) -> str | None:
        return self.first_to_show(self.text("test").lines, fits)


def _own_part(batches: Iterator[Any], world: World) -> Iterator[Any]:
    """The batches that this rank evaluates; where each goes on with the last, rank 0 reads all."""
    for number, batch in enumerate(batches):
        if world.rank == (0 if isinstance(batch, TextBatch) else number % world.size):
            yield batch


def _going_on(model: Callable[..., Any], batch: TextBatch, carried: Carried) -> Tensor:
    """The logits of a recurrent model that goes on with the state which the last batch left."""
    if batch.first:
        carried.clear()
    state = tuple(carried.values()) or None
    logits, state = model(batch.source, state, lengths=batch.lengths)
    # Detached: the gradient ends where the chunk began. float32, whatever it was computed in.
    carried.update({f"state.{n}": part.detach().float() for n, part in enumerate(state)})
    return logits


def _logits(output: Tensor | tuple[Tensor, Any]) -> Tensor:
    """The logits that a model gives, some with a state to go on from."""
    return output[0] if isinstance(output, tuple) else output


def _sources_of(config: Config) -> Sources:
    """Where the text of each split comes from."""
    data = config.data
    return {split: TextSource(getattr(data, split), split, data) for split in SPLITS}
