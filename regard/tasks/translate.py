"""translate: any sequence to sequence."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.config import Config, Decode
from regard.data.batches import Batch, Collate, Examples, Ids, collate, source_batch
from regard.data.pairs import measure
from regard.data.splits import SPLITS, Pair, Split
from regard.data.tokenizer import END, NEVER_WRITTEN, START, Tokenizer
from regard.decoding import Hypothesis, greedy
from regard.errors import UserError
from regard.metrics.errors import phoneme_error_rate, word_error_rate
from regard.metrics.exact import exact_match
from regard.models import EncoderDecoder
from regard.models.build import encoder_decoder
from regard.nn import Trace
from regard.tasks.pair_task import PairTask
from regard.tasks.task import Prediction, checked_lines
from regard.tasks.writing import write
from regard.training.engine import Engine
from regard.training.loop import Carried
from regard.training.loss import Sums, token_sums

SCORES: dict[str, dict[str, Callable[..., float]]] = {
    "exact": {"exact_match": exact_match},
    "pronunciation": {"wer": word_error_rate, "per": phoneme_error_rate},
}
"""What outputs are scored by, as `data.scores` names it."""


class Translate(PairTask):
    """Pairs of texts, an encoder-decoder, cross-entropy on the target, scores of what it writes."""

    FILES = ("tokenizer.json", "target_tokenizer.json")
    SCORES_OUTPUTS = True

    def __init__(self, config: Config, files: dict[str, str] | None = None) -> None:
        source, target = config.tokenizer.kinds
        super().__init__(config, measures=(measure(source), measure(target)))
        self.tokenizer, self.target_tokenizer = (
            self._train_tokenizers() if files is None else self._open_tokenizers(files)
        )

    def _train_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        settings, pairs = self.config.tokenizer, self.pairs("train")
        sides = [[source for source, _ in pairs], [target for _, target in pairs]]
        if settings.joint:
            sides = [[text for pair in pairs for text in pair]]
        found = [
            Tokenizer.train(
                texts, vocab_size=settings.vocab_size, kind=kind, lowercase=settings.lowercase
            )
            for texts, kind in zip(sides, settings.kinds, strict=False)
        ]
        return found[0], found[-1]

    def _open_tokenizers(self, files: dict[str, str]) -> tuple[Tokenizer, Tokenizer]:
        source = Tokenizer.read(files, self.FILES[0])
        return source, source if self.config.tokenizer.joint else Tokenizer.read(
            files, self.FILES[1]
        )

    @property
    def files(self) -> dict[str, str]:
        names = self.FILES[:1] if self.config.tokenizer.joint else self.FILES
        texts = (self.tokenizer.json, self.target_tokenizer.json)
        return dict(zip(names, texts, strict=False))

    def new_model(self) -> EncoderDecoder:
        return encoder_decoder(
            self.config,
            vocabs=(len(self.tokenizer), len(self.target_tokenizer)),
            max_length=self.longest_output,
        )

    @property
    def has_limit(self) -> bool:
        """Whether the model has only so many positions."""
        return self.config.model.kind == "transformer" and self.config.model.positions == "learned"

    @property
    def longest_output(self) -> int:
        """Positions that a model with learned ones has."""
        return max(self.config.data.max_length + 1, self.config.decode.max_new_tokens)

    def check_data(self) -> None:
        super().check_data()
        for split in SPLITS:
            self.examples(split)

    @property
    def collate(self) -> Collate:
        return collate

    def encode(self, pairs: list[Pair]) -> Examples:
        sides = (
            self.tokenizer.encode([source for source, _ in pairs]),
            self.target_tokenizer.encode([target for _, target in pairs]),
        )
        most = self.config.data.max_length
        for texts, rows in zip(zip(*pairs, strict=True), sides, strict=True):
            for text, row in zip(texts, rows, strict=True):
                if len(row) > most:
                    raise UserError(
                        f"data.max_length={most} is less than the {len(row)} tokens of "
                        f"{text[:60]!r}."
                    )
        return sides

    def loss(self, model: Callable[..., Any], batch: Batch, carried: Carried) -> Sums:
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
        """How many sources there are, and the scores on them: without smoothing, and by decoding.

        A source that stands there more than once has several right targets: any of them counts.
        """
        total = Sums()
        with torch.inference_mode(), engine.autocast():
            for batch in self.batches_of(split).epoch(0):
                total = total + self._sums(model, batch.to(engine.device), smoothing=0.0)
        metrics = self.means(total)
        metrics["ppl"] = math.exp(min(metrics["loss"], 700.0))
        references: dict[str, list[str]] = {}
        for source, target in self.pairs(split):
            references.setdefault(source, []).append(self.target_tokenizer.normal(target))
        if with_decoding:
            ids = self.tokenizer.encode(list(references))
            found = self._decode(model, ids, decode or self.config.decode, engine)
            texts = [self.target_tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
            for name, score in SCORES[self.config.data.scores].items():
                metrics[name] = score(texts, list(references.values()))
        return len(references), metrics

    def predict(
        self,
        model: EncoderDecoder,
        lines: Sequence[str],
        *,
        engine: Engine,
        decode: Decode | None = None,
        name: str = "line",
    ) -> list[Prediction]:
        filled = checked_lines(lines, self.check, name=name)
        decode = decode or self.config.decode
        ids = self.tokenizer.encode([lines[number] for number in filled])
        found = dict(zip(filled, self._decode(model, ids, decode, engine), strict=True))
        return [
            Prediction(
                line,
                [self.target_tokenizer.decode(one.tokens) for one in found.get(number, [])],
                [one.score for one in found.get(number, [])],
            )
            for number, line in enumerate(lines)
        ]

    def check(self, line: str, *, where: str) -> None:
        super().check(line, where=where)
        length = len(self.tokenizer.encode([line])[0])
        if length > self.config.data.max_length:
            raise UserError(
                f"{where}: {length} tokens, and this run was trained on lines of up to "
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
        return write(model, sources, source_batch, decode, engine)

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
        trace.tokens["target"] = self.target_tokenizer.tokens(target[0].tolist())
        trace.tokens["output"] = self.target_tokenizer.tokens(output)
        with torch.inference_mode():
            model(source, target, trace=trace)
        return trace
