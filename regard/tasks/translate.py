"""translate: any sequence to sequence."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.config import Config, Decode
from regard.data.batches import Batch, BatchStream, Ids, source_batch
from regard.data.pairs import PairSource
from regard.data.synthetic import SPLITS, Pair, Split
from regard.data.tokenizer import END, NEVER_WRITTEN, START, UNKNOWN, Tokenizer
from regard.decoding import Hypothesis, greedy, search
from regard.errors import UserError
from regard.metrics.exact import exact_match
from regard.models import EncoderDecoder
from regard.models.build import encoder_decoder
from regard.nn import Trace
from regard.training.engine import Engine
from regard.training.loss import Sums, token_sums

DECODED_TOGETHER = 128
"""Rows of a batch when predicting."""


@dataclass(frozen=True)
class Prediction:
    """What became of one line: the best output first; none for an empty line."""

    input: str
    outputs: list[str]
    scores: list[float]

    @property
    def text(self) -> str:
        return self.outputs[0] if self.outputs else ""


class Translate:
    """Pairs of texts, an encoder-decoder, cross-entropy on the target, exact match."""

    def __init__(self, config: Config, tokenizer: Tokenizer | None = None) -> None:
        self.config = config
        named = {"train": config.data.train, "valid": config.data.valid, "test": config.data.test}
        self.sources = {split: PairSource(named[split], split, config.data) for split in SPLITS}
        self.tokenizer = tokenizer or self._train_tokenizer()
        self._encoded: dict[Split, tuple[list[Ids], list[Ids]]] = {}

    def _train_tokenizer(self) -> Tokenizer:
        texts = (text for pair in self.pairs("train") for text in pair)
        return Tokenizer.train(texts, vocab_size=self.config.tokenizer.vocab_size)

    def pairs(self, split: Split, *, epoch: int = 0) -> list[Pair]:
        """Source and target of every example."""
        return self.sources[split].pairs(seed=self.config.seed, epoch=epoch)

    def notices(self) -> list[str]:
        """A sentence on everything in the data that could not be used as it is: none in silence."""
        found = []
        for split, source in self.sources.items():
            if source.skipped:
                found.append(f"{source.path}: {source.skipped:,} lines were left out.")
            rows = [row for side in self._encoded.get(split, ()) for row in side]
            unknown = sum(row.count(UNKNOWN) for row in rows)
            if unknown:
                found.append(
                    f"data.{split}: {unknown:,} of {sum(map(len, rows)):,} tokens are not in the "
                    f"vocabulary, and are read as <unk>."
                )
        return found

    def build_model(self) -> EncoderDecoder:
        """The model that the configuration asks for, its weights drawn from the seed."""
        with torch.random.fork_rng(devices=[]):  # whoever opens a run keeps their own randomness
            torch.manual_seed(self.config.seed)
            return encoder_decoder(
                self.config, vocab=len(self.tokenizer), max_length=self.longest_output
            )

    @property
    def has_limit(self) -> bool:
        """Whether the model has only so many positions."""
        return self.config.model.kind == "transformer" and self.config.model.positions == "learned"

    @property
    def longest_output(self) -> int:
        """Positions that a model with learned ones has."""
        return max(self.config.data.max_length + 1, self.config.decode.max_new_tokens)

    def batches(self) -> BatchStream:
        """The training batches."""
        train = self.config.train
        return BatchStream(
            self._training_examples,
            seed=self.config.seed,
            batch_tokens=train.batch_tokens,
            batch_size=train.batch_size,
        )

    def _training_examples(self, epoch: int) -> tuple[list[Ids], list[Ids]]:
        return self._examples("train", epoch=epoch)

    def _examples(self, split: Split, *, epoch: int = 0) -> tuple[list[Ids], list[Ids]]:
        """The pairs of a split as token ids; kept, unless every epoch has new ones."""
        if split not in self._encoded or self.sources[split].endless:
            pairs = self.pairs(split, epoch=epoch)
            self._encoded[split] = (
                self.tokenizer.encode([source for source, _ in pairs]),
                self.tokenizer.encode([target for _, target in pairs]),
            )
        return self._encoded[split]

    def steps(self, *, epochs: int, accumulate: int) -> int:
        """Updates in so many epochs, of as many batches as the first."""
        return max(1, math.ceil(epochs * self.batches().count(0) / accumulate))

    def loss(self, model: Callable[..., Any], batch: Batch) -> Sums:
        """Σ −log p(target | source), smoothed as the configuration says."""
        return self._sums(model, batch, smoothing=self.config.train.label_smoothing)

    def _sums(self, model: Callable[..., Any], batch: Batch, *, smoothing: float) -> Sums:
        scores = model(batch.source, batch.target_in)
        return token_sums(scores, batch.target_out, tokens=batch.tokens, smoothing=smoothing)

    def evaluate(
        self,
        model: EncoderDecoder,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        with_decoding: bool = True,
    ) -> tuple[int, dict[str, float]]:
        """How many pairs there are, and the scores on them: without smoothing, and by decoding."""
        pairs, examples = self.pairs(split), self._examples(split)
        stream = BatchStream(lambda epoch: examples, seed=0, batch_tokens=8192)
        total = Sums()
        with torch.inference_mode(), engine.autocast():
            for batch in stream.epoch(0):
                total = total + self._sums(model, batch.to(engine.device), smoothing=0.0)
        metrics = total.metrics
        metrics["ppl"] = math.exp(min(metrics["loss"], 700.0))
        if with_decoding:
            found = self._decode(model, examples[0], decode or self.config.decode, engine)
            texts = [self.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
            references = [" ".join(target.split()) for _, target in pairs]
            metrics["exact_match"] = exact_match(texts, references)
        return len(pairs), metrics

    def predict(
        self,
        model: EncoderDecoder,
        lines: Sequence[str],
        *,
        engine: Engine,
        decode: Decode | None = None,
        name: str = "line",
    ) -> list[Prediction]:
        """A prediction a line, in order; every line is checked before the first is predicted."""
        if isinstance(lines, str):
            raise TypeError("predict takes a list of lines, not one string")
        for number, line in enumerate(lines, start=1):
            self.check(line, where=f"{name}:{number}")
        decode = decode or self.config.decode
        filled = [number for number, line in enumerate(lines) if line.split()]
        ids = self.tokenizer.encode([lines[number] for number in filled])
        found = dict(zip(filled, self._decode(model, ids, decode, engine), strict=True))
        return [
            Prediction(
                line,
                [self.tokenizer.decode(one.tokens) for one in found.get(number, [])],
                [one.score for one in found.get(number, [])],
            )
            for number, line in enumerate(lines)
        ]

    def check(self, line: str, *, where: str) -> None:
        """Refuse a line that the model cannot read whole."""
        unknown = self.tokenizer.unknown(line)
        if unknown is not None:
            raise UserError(
                f"{where}: {unknown[:40]!r} is not in the vocabulary of this run, which knows "
                f"{self.tokenizer.sample()}."
            )
        words = len(self.tokenizer.encode([line])[0])
        if words > self.config.data.max_length:
            raise UserError(
                f"{where}: {words} tokens, and this run was trained on lines of up to "
                f"{self.config.data.max_length} (data.max_length). Split the line."
            )

    def _decode(
        self, model: EncoderDecoder, sources: list[Ids], decode: Decode, engine: Engine
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source; lines of like length are decoded together."""
        if self.has_limit and decode.max_new_tokens > self.longest_output:
            raise UserError(
                f"max_new_tokens={decode.max_new_tokens} is more than the {self.longest_output} "
                f"positions that this model learned."
            )
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for begin in range(0, len(order), DECODED_TOGETHER):
            rows = order[begin : begin + DECODED_TOGETHER]
            batch = source_batch([sources[row] for row in rows]).to(engine.device)
            with engine.autocast():
                hypotheses = search(model, batch, decode, start=START, end=END, never=NEVER_WRITTEN)
            for row, of_row in zip(rows, hypotheses, strict=True):
                found[row] = of_row
        return found

    def trace(self, model: EncoderDecoder, text: str, *, engine: Engine) -> Trace:
        """Everything that the model computes while it reads a text and writes its answer."""
        self.check(text, where="trace")
        source = source_batch(self.tokenizer.encode([text])).to(engine.device)
        answer = greedy(
            model,
            source,
            start=START,
            end=END,
            max_new_tokens=self.config.decode.max_new_tokens,
            never=NEVER_WRITTEN,
        )[0]
        output = [*answer.tokens, END] if answer.finished else answer.tokens
        target = source.new_tensor([[START, *output[:-1]]])
        trace = Trace()
        trace.tokens["source"] = self.tokenizer.tokens(source[0].tolist())
        trace.tokens["target"] = self.tokenizer.tokens(target[0].tolist())
        trace.tokens["output"] = self.tokenizer.tokens(output)
        with torch.inference_mode():
            model(source, target, trace=trace)
        return trace
