"""translate: any sequence to sequence."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from regard.config import OUTPUT_METRICS, Config, Decode
from regard.data.batches import Batch, Collate, collate, pad, source_batch
from regard.data.examples import Ids
from regard.data.records import Row
from regard.data.splits import Pair, Split
from regard.data.tokenizer import END, NEVER_WRITTEN, START, Tokenizer
from regard.decoding import Ensemble, Hypothesis, Stepper, greedy
from regard.metrics.analysis import Translated
from regard.metrics.errors import phoneme_error_rate, word_error_rate
from regard.metrics.exact import exact_match
from regard.metrics.translation import signatures, translation_scores
from regard.models import EncoderDecoder
from regard.models.build import encoder_decoder
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks.alignment import WordAlignment, align, attended, words_or_characters
from regard.tasks.asked import Asked
from regard.tasks.pair_task import PairTask
from regard.tasks.task import Prediction, refuse_unknown
from regard.tasks.writing import write
from regard.training.loop import Carried
from regard.training.loss import Sums, count_correct, token_sums
from regard.training.r_drop import r_drop

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
        super().__init__(config)
        self._written = self._cut = 0
        self.tokenizer, self.target_tokenizer = (
            self._train_tokenizers() if files is None else self._open_tokenizers(files)
        )

    def _train_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        settings, train = self.config.tokenizer, self.sources["train"]
        made = list(train.rows()) if train.generated else None  # a file is read again instead

        def rows() -> Iterable[Row]:
            return train.to_learn_from() if made is None else made

        sides = [(row.source for row in rows()), (row.target for row in rows())]
        if settings.joint:
            sides = [(text for row in rows() for text in (row.source, row.target))]
        found = [
            Tokenizer.train(texts, kind=kind, **settings.options)
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
            max_length=self._positions,
        )

    @property
    def longest_output(self) -> int | float:  # type: ignore[override]
        """The positions that a model with learned ones has."""
        learned = (
            self.config.model.kind == "transformer" and self.config.model.positions == "learned"
        )
        return self._positions if learned else math.inf

    @property
    def _positions(self) -> int:
        return max(self.config.data.max_length + 1, self.config.decode.max_new_tokens)

    @property
    def collate(self) -> Collate:
        return collate

    @property
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        return self.tokenizer, self.target_tokenizer

    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        return (
            self.tokenizer.encode([row.source for row in rows]),
            self.target_tokenizer.encode([row.target for row in rows]),
        )

    def loss(self, model: Callable[..., Any], batch: Batch, carried: Carried) -> Sums:
        """Σ −log p(target | source), smoothed as the configuration says.

        With R-Drop, the batch is read twice: the mean of both losses, and α/2 of what they differ.
        """
        smoothing, alpha = self.config.training.label_smoothing, self.config.training.r_drop
        if alpha == 0:
            return self.sums(model, batch, smoothing=smoothing)
        scores = model(batch.source.repeat(2, 1), batch.target_in.repeat(2, 1))
        loss = r_drop(scores, batch.target_out, alpha=alpha, smoothing=smoothing)
        correct = count_correct(scores[: len(batch.target_out)], batch.target_out)
        return Sums(loss, batch.tokens, correct)

    def sums(self, model: Callable[..., Any], batch: Batch, *, smoothing: float) -> Sums:
        scores = model(batch.source, batch.target_in)
        return token_sums(scores, batch.target_out, tokens=batch.tokens, smoothing=smoothing)

    def check_data(self) -> None:
        self.signatures()  # a package that a score needs is missed now, not an hour later
        super().check_data()

    def notices(self) -> list[str]:
        """And how much of what was written last could not be written to its end."""
        found = super().notices()
        if self.config.data.scores == "translation" and not self.config.data.languages[1]:
            found.append("data.target_language is not given: BLEU cuts words as of English.")
        if self._cut:
            found.append(f"{self._cut:,} of {self._written:,} outputs were cut at max_new_tokens.")
        return found

    def evaluate(
        self,
        model: EncoderDecoder | Ensemble,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        written: Collection[str] | None = None,
        outputs: list[Translated] | None = None,
    ) -> tuple[int, dict[str, float]]:
        """How many sources there are, and the scores on them: without smoothing, and by decoding.

        A source that stands there more than once has several right targets: any of them counts,
        but in translation, which is scored line by line.
        """
        self._written = self._cut = 0
        total = self.sums_of(model, split, engine=engine)
        metrics = self.means(total)
        metrics["ppl"] = math.exp(min(metrics["loss"], 700.0))
        pairs = self.pairs(split)
        sources = list(dict.fromkeys(source for source, _ in pairs))
        if written is None or written:
            ids = self.tokenizer.encode(sources)
            found = self._decode(model, ids, decode or self.config.decode, engine)
            texts = [self.target_tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
            made = dict(zip(sources, texts, strict=True))
            metrics |= self._scores(pairs, made, written)
            if outputs is not None:
                outputs += [Translated(*pair, made[pair[0]]) for pair in pairs]
        return len(pairs if self.config.data.scores == "translation" else sources), metrics

    def _scores(
        self, pairs: list[Pair], outputs: dict[str, str], written: Collection[str] | None
    ) -> dict[str, float]:
        """The scores of what was written for each source.

        Translations are scored as they are read, against the target as it stands in the file; of
        all else, outputs and targets are compared as the tokenizer would write them.
        """
        if self.config.data.scores == "translation":
            return translation_scores(
                [outputs[source] for source, _ in pairs],
                [target for _, target in pairs],
                language=self.config.data.languages[1],
                names=[
                    name for name in OUTPUT_METRICS["translation"] if not written or name in written
                ],
            )
        references: dict[str, list[str]] = {}
        for source, target in pairs:
            references.setdefault(source, []).append(self.target_tokenizer.normal(target))
        right = list(references.values())
        return {
            name: score([outputs[source] for source in references], right)
            for name, score in SCORES[self.config.data.scores].items()
        }

    def signatures(self) -> dict[str, str]:
        if self.config.data.scores != "translation":
            return {}
        return signatures(self.config.data.languages[1])

    def predict(self, model: Stepper, asked: Asked, *, engine: Engine) -> list[Prediction]:
        lines = asked.lines
        filled = [number for number in asked.readable(self.check) if lines[number].split()]
        ids = self.tokenizer.encode([lines[number] for number in filled])
        self.count_read(ids)
        begins = [self._prefix(asked.prefix, asked.decode)] * len(ids) if asked.prefix else None
        numbers = [asked.first + number for number in filled]
        written = self._decode(model, ids, asked.decode, engine, prefixes=begins, numbers=numbers)
        found = dict(zip(filled, written, strict=True))
        alignments: dict[int, WordAlignment] = {}
        if asked.aligned:
            outputs = [hypotheses[0].tokens for hypotheses in written]
            alignments = dict(zip(filled, self._align(model, ids, outputs, engine), strict=True))
        return [
            Prediction(
                line,
                [self.target_tokenizer.decode(one.tokens) for one in found.get(number, [])],
                [one.score for one in found.get(number, [])],
                alignment=alignments.get(number, []) if asked.aligned else None,
                finished=[one.finished for one in found.get(number, [])],
            )
            for number, line in enumerate(lines)
        ]

    def _prefix(self, prefix: str, decode: Decode) -> Ids:
        """The tokens that every output begins with."""
        known = self.target_tokenizer
        refuse_unknown(known.unknown(prefix), known.sample(), where="prefix")
        ids = known.encode([prefix])[0]
        if len(ids) >= decode.max_new_tokens:
            raise UserError(
                f"prefix has {len(ids)} tokens, and max_new_tokens={decode.max_new_tokens} leaves "
                f"no room after it."
            )
        return ids

    def _align(
        self, model: Stepper, sources: list[Ids], outputs: list[Ids], engine: Engine
    ) -> list[WordAlignment]:
        """Which words of its source each output comes from; of an ensemble, to its first member."""
        reader = model.members[0] if isinstance(model, Ensemble) else model
        cuts = [words_or_characters(language) for language in self.config.data.languages]
        found = []
        for source, output in zip(sources, outputs, strict=True):
            weights = attended(
                cast(Callable[..., Tensor], reader),
                source_batch([source]).to(engine.device),
                pad([[START, *output]]).to(engine.device),
            )
            if weights is None:
                raise UserError("align needs a model that attends to its source.")
            found.append(
                align(
                    weights[0],
                    source,
                    output,
                    source_words=lambda ids: cuts[0](self.tokenizer.decode(ids)),
                    output_words=lambda ids: cuts[1](self.target_tokenizer.decode(ids)),
                )
            )
        return found

    def check(self, line: str, *, where: str) -> None:
        super().check(line, where=where)
        length = len(self.tokenizer.encode([line])[0])
        if length > self.config.data.max_length:
            raise UserError(
                f"{where}: {length} tokens, and this run was trained on lines of up to "
                f"{self.config.data.max_length} (data.max_length). Split the line."
            )

    def _decode(
        self,
        model: Stepper,
        sources: list[Ids],
        decode: Decode,
        engine: Engine,
        *,
        prefixes: Sequence[Ids] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source; lines of like length are decoded together."""
        if decode.max_new_tokens > self.longest_output:
            raise UserError(
                f"max_new_tokens={decode.max_new_tokens} is more than the {self.longest_output} "
                f"positions that this model learned."
            )
        found = write(
            model, sources, source_batch, decode, engine, prefixes=prefixes, numbers=numbers
        )
        self._written += len(found)
        self._cut += sum(not hypotheses[0].finished for hypotheses in found)
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
        trace.tokens["target"] = self.target_tokenizer.tokens(target[0].tolist())
        trace.tokens["output"] = self.target_tokenizer.tokens(output)
        with torch.inference_mode():
            model(source, target, trace=trace)
        return trace
