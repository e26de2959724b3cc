"""lm: the next token of a running text."""

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import pad
from regard.data.splits import SPLITS, Pair, Split
from regard.data.text import TextBatch, TextSource, TextStream
from regard.data.tokenizer import END, UNKNOWN, Tokenizer
from regard.metrics.analysis import Translated
from regard.models import RecurrentLanguageModel
from regard.models.build import recurrent_language_model
from regard.nn import Trace
from regard.system.engine import Engine
from regard.tasks.asked import Asked
from regard.tasks.task import (
    Prediction,
    Task,
    refuse_unknown,
    unknown_tokens,
)
from regard.tasks.writing import write
from regard.training.loop import Carried
from regard.training.loss import Sums, token_sums

EVALUATED_AT_ONCE = 512
"""Tokens of a stretch when evaluating."""


class LanguageModelling(Task):
    """A text, a recurrent language model, cross-entropy on each next token, perplexity.

    The text is one stream: its lines, each closed by `</s>`. Training goes through it in stretches
    of data.max_length tokens; the state is carried from one to the next, the gradient is not
    (truncated back-propagation through time, Williams & Peng 1990).
    """

    def __init__(self, config: Config, files: dict[str, str] | None = None) -> None:
        super().__init__(config)
        self.sources = {
            split: TextSource(getattr(config.data, split), split, config.data) for split in SPLITS
        }
        self._lines: dict[Split, list[str]] = {}
        self._ids: dict[Split, Int[np.ndarray, N]] = {}
        if files is None:
            self.tokenizer = Tokenizer.train(
                self.lines("train"),
                kind=config.tokenizer.kind,
                **config.tokenizer.options,
            )
        else:
            self.tokenizer = Tokenizer.read(files, self.FILES[0])

    @property
    def files(self) -> dict[str, str]:
        return {self.FILES[0]: self.tokenizer.json}

    @property
    def fingerprint(self) -> str:
        return self.sources["train"].fingerprint

    def lines(self, split: Split) -> list[str]:
        """The lines of a split's text."""
        if split not in self._lines:
            self._lines[split] = self.sources[split].lines()
        return self._lines[split]

    def pairs(self, split: Split) -> list[Pair]:
        """The first half of each line, and the line."""
        return [(line[: len(line) // 2], line) for line in self.lines(split) if line.split()]

    def check_data(self) -> None:
        for split in SPLITS:
            self.text(split)

    def notices(self) -> list[str]:
        return [
            sentence
            for split, ids in self._ids.items()
            for sentence in unknown_tokens(f"data.{split}", int((ids == UNKNOWN).sum()), len(ids))
        ]

    def text(self, split: Split) -> Int[np.ndarray, "N"]:
        """The whole text of a split as token ids, `</s>` after each line."""
        if split not in self._ids:
            rows = self.tokenizer.encode(self.lines(split))
            self._ids[split] = np.array([one for row in rows for one in (*row, END)])
        return self._ids[split]

    def new_model(self) -> RecurrentLanguageModel:
        return recurrent_language_model(self.config, vocab=len(self.tokenizer))

    def batches(self) -> TextStream:
        train, length = self.config.training, self.config.data.max_length
        rows = train.batch_size or max(1, (train.batch_tokens or 1) // length)
        return TextStream(lambda: self.text("train"), rows=rows, length=length)

    def loss(self, model: Callable[..., Any], batch: TextBatch, carried: Carried) -> Sums:
        """Σ −log p(next token | the text so far), smoothed as the configuration says."""
        smoothing = self.config.training.label_smoothing
        return self._sums(model, batch, carried, smoothing=smoothing)

    def _sums(
        self, model: Callable[..., Any], batch: TextBatch, carried: Carried, *, smoothing: float
    ) -> Sums:
        if batch.first:
            carried.clear()
        scores, state = model(batch.source, tuple(carried.values()) or None)
        # Detached: the gradient ends where the stretch began. float32, whatever it was computed in.
        carried.update({f"state.{n}": part.detach().float() for n, part in enumerate(state)})
        return token_sums(scores, batch.target, tokens=batch.tokens, smoothing=smoothing)

    def evaluate(
        self,
        model: RecurrentLanguageModel,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        written: Collection[str] | None = None,
        outputs: list[Translated] | None = None,
    ) -> tuple[int, dict[str, float]]:
        """How many tokens there are, and their scores: in one row, each seen in all its context."""
        total, carried = Sums(), Carried()
        stream = TextStream(lambda: self.text(split), rows=1, length=EVALUATED_AT_ONCE)
        with torch.inference_mode(), engine.autocast():
            for batch in stream.epoch(0):
                found = self._sums(model, batch.to(engine.device), carried, smoothing=0.0)
                total = total + found
        metrics = self.means(total)
        metrics["ppl"] = math.exp(min(metrics["loss"], 700.0))
        characters = sum(len(line) + 1 for line in self.lines(split))  # a line's end is one
        metrics["bits_per_char"] = float(total.loss) / math.log(2) / characters
        return total.tokens, metrics

    def predict(
        self, model: RecurrentLanguageModel, asked: Asked, *, engine: Engine
    ) -> list[Prediction]:
        """Each line written on to its end; an empty one is begun anew."""
        asked.only_of_a_translator(self.config.task)
        lines, readable = asked.lines, asked.readable(self.check)
        prompts = self.tokenizer.encode([lines[number] for number in readable])
        numbers = [asked.first + number for number in readable]
        written = write(model, prompts, self._prompt, asked.decode, engine, numbers=numbers)
        found = {
            number: Prediction(
                lines[number],
                [self.tokenizer.decode([*prompt, *one.tokens]) for one in hypotheses],
                [one.score for one in hypotheses],
                finished=[one.finished for one in hypotheses],
            )
            for number, prompt, hypotheses in zip(readable, prompts, written, strict=True)
        }
        return [
            found.get(number, Prediction(line, [], [], finished=[]))
            for number, line in enumerate(lines)
        ]

    def _prompt(self, rows: list[list[int]]) -> Int[Tensor, "B L"]:
        """As the model reads them: a line begins after the end of another."""
        return pad([[END, *row] for row in rows])

    def check(self, line: str, *, where: str) -> None:
        """Refuse a line that the model cannot read."""
        refuse_unknown(self.tokenizer.unknown(line), self.tokenizer.sample(), where=where)

    def trace(self, model: RecurrentLanguageModel, text: str, *, engine: Engine) -> Trace:
        """Everything that the model computes while it reads a line, the gates among it."""
        self.check(text, where="trace")
        ids = self.tokenizer.encode([text])
        source = self._prompt(ids).to(engine.device)
        trace = Trace()
        read = self.tokenizer.tokens(source[0].tolist())
        trace.tokens["source"] = trace.tokens["target"] = read
        with torch.inference_mode():
            scores, _ = model(source, trace=trace)
        trace.tokens["output"] = self.tokenizer.tokens(scores[0].argmax(-1).tolist())
        return trace

    def example(self, fits: Callable[[str], bool]) -> str | None:
        return self.first_to_show(self.lines("test"), fits)
