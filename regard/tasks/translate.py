"""translate: any sequence to sequence."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import Batch, Collate, collate, source_batch
from regard.data.examples import Ids
from regard.data.rows import Row
from regard.data.splits import SPLITS, Pair, Split
from regard.data.tokenizer import Tokenizer
from regard.decoding import Ensemble, Replay, Stepper, before_stop
from regard.metrics.output import Output
from regard.models import EncoderDecoder
from regard.models.build import encoder_decoder
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.ranks import World
from regard.tasks.alignment import WordAlignment
from regard.tasks.evaluation import Evaluation
from regard.tasks.generating import Generator, count_generated
from regard.tasks.output_metrics import measure, needed, signatures_of
from regard.tasks.output_text import OutputText
from regard.tasks.pair_task import PairTask, Sources
from regard.tasks.prediction import Prediction
from regard.tasks.request import Answer, Counts, Request, count_read, read_lines
from regard.tasks.task import VerifyInputs
from regard.tasks.translator import Translation, Translator
from regard.training.gradients import Carried
from regard.training.loss import Sums, count_correct, token_sums
from regard.training.r_drop import r_drop


class Translate(PairTask):
    """Pairs of texts, an encoder-decoder, cross-entropy on the target, metrics of its outputs."""

    FILES = ("tokenizer.json", "target_tokenizer.json")
    request_options = ("prefix", "align", "stop", "choice", "regex")
    scores_outputs = True
    can_ensemble = True

    def __init__(
        self,
        config: Config,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        sources: Sources | None = None,
    ) -> None:
        super().__init__(config, sources=sources)
        self.tokenizer = tokenizer
        self.target_tokenizer = target_tokenizer

    @classmethod
    def learn(cls, config: Config) -> "Translate":
        sources, settings = cls.sources_of(config), config.tokenizer
        train = sources["train"]
        generated = list(train.rows()) if train.generated else None  # a file is read again instead

        def rows() -> Iterable[Row]:
            return train.to_learn_from() if generated is None else generated

        sides = [(row.source for row in rows()), (row.target for row in rows())]
        if settings.joint:
            sides = [(text for row in rows() for text in (row.source, row.target))]
        tokenizers = [
            Tokenizer.train(texts, kind=kind, **settings.options)
            for texts, kind in zip(sides, settings.kinds, strict=False)
        ]
        return cls(config, tokenizers[0], tokenizers[-1], sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "Translate":
        source = Tokenizer.read(files, cls.FILES[0])
        joint = config.tokenizer.joint
        return cls(config, source, source if joint else Tokenizer.read(files, cls.FILES[1]))

    @property
    def files(self) -> dict[str, str]:
        names = self.FILES[:1] if self.config.tokenizer.joint else self.FILES
        texts = (self.tokenizer.json, self.target_tokenizer.json)
        return dict(zip(names, texts, strict=False))

    @property
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        return self.tokenizer, self.target_tokenizer

    @property
    def analysable(self) -> bool:
        return self.config.data.scores == "translation"

    def new_model(self) -> EncoderDecoder:
        source, target = self.tokenizers
        return encoder_decoder(
            self.config,
            vocabs=(len(source), len(target)),
            max_length=self._positions,
            padding=source.padding if source.padding == target.padding else None,
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
        source, target = self.tokenizers
        return partial(collate, source_ids=source.special, target_ids=target.special)

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
        logits = model(
            batch.source.repeat(2, 1),
            batch.target_in.repeat(2, 1),
            source_lengths=batch.source_lengths.repeat(2),
        )
        targets, padding = batch.target_out, self.target_tokenizer.special.ignored
        loss = r_drop(logits, targets, alpha=alpha, smoothing=smoothing, padding=padding)
        correct = count_correct(logits[: len(targets)], targets, padding=padding)
        return Sums.of(loss, batch.tokens, correct)

    def sums(self, model: Callable[..., Any], batch: Batch, *, smoothing: float) -> Sums:
        return token_sums(
            model(batch.source, batch.target_in, source_lengths=batch.source_lengths),
            batch.target_out,
            tokens=batch.tokens,
            smoothing=smoothing,
            padding=self.target_tokenizer.special.ignored,
        )

    def check_data(self) -> None:
        signatures_of(self.config.data)  # a package that a metric needs is missed now, not later
        super().check_data()

    def warnings(self, splits: Iterable[Split] = SPLITS) -> list[str]:
        sentences = super().warnings(splits)
        if self.analysable and not self.config.data.languages[1]:
            sentences.append("data.target_language is not given: BLEU splits words as in English.")
        return sentences

    def evaluate(
        self,
        model: EncoderDecoder | Ensemble,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The metrics of a split: of its targets without smoothing, and of generated outputs.

        A source that stands there more than once is one example, but in translation, which is
        measured line by line.
        """
        data, world = self.config.data, world or World()
        signatures = signatures_of(data)
        measured = self.means(self.sums_of(model, split, engine=engine, world=world))
        measured["ppl"] = math.exp(min(measured["loss"], 700.0))
        pairs = self.pairs(split)
        sources = list(dict.fromkeys(source for source, _ in pairs))
        examples = len(pairs if data.scores == "translation" else sources)
        names, warnings = needed(data, metrics), self.warnings([split])
        if not names:
            return Evaluation(examples, measured, warnings=warnings, signatures=signatures)
        texts, counts = self._generate(model, sources, decode, engine=engine, world=world)
        outputs = dict(zip(sources, texts, strict=True))
        measured |= measure(names, pairs, outputs, data=data, normal=self.target_tokenizer.normal)
        return Evaluation(
            examples,
            measured,
            outputs=[Output(*pair, outputs[pair[0]]) for pair in pairs],
            warnings=[*warnings, *counts.warnings()],
            signatures=signatures,
        )

    def _generate(
        self,
        model: Stepper,
        sources: Sequence[str],
        decode: Decode | None,
        *,
        engine: Engine,
        world: World,
    ) -> tuple[list[str], Counts]:
        """The best output for each source, and how many were cut; each rank generates some."""
        numbers = list(world.share(range(len(sources))))
        generated = self._translator.generate(
            model,
            self.tokenizer.encode([sources[number] for number in numbers]),
            decode or self.config.decode,
            engine,
            numbers=numbers,
        )
        texts = [self.target_tokenizer.decode(best.tokens) for best, *_ in generated]
        finished = [best.finished for best, *_ in generated]
        of_all = world.join(list(zip(texts, finished, strict=True)))
        cut = sum(not ended for _, ended in of_all)
        return [text for text, _ in of_all], Counts(outputs=len(of_all), cut=cut)

    @property
    def _translator(self) -> Translator:
        return Translator(
            self.tokenizer,
            self.target_tokenizer,
            languages=self.config.data.languages,
            longest=self.longest_output,
        )

    def predict(self, model: Stepper, request: Request, *, engine: Engine) -> Answer:
        """The n_best outputs for each line; an empty line has none."""
        read = read_lines(request, self.tokenizer, self.refusal)
        ids = {number: row for number, row in read.ids.items() if request.lines[number].split()}
        sources, translator = list(ids.values()), self._translator
        prefix = translator.prefix(request.prefix, request.decode) if request.prefix else None
        generator, text = self.generator(model, request, engine)
        generated = generator.hypotheses(
            sources,
            prefixes=None if prefix is None else [prefix] * len(ids),
            numbers=[request.first + number for number in ids],
        )
        alignments: Sequence[WordAlignment | None] = [None] * len(ids)
        if request.aligned:
            best = [hypotheses[0].tokens for hypotheses in generated]
            alignments = translator.align(model, sources, best, engine)
        predictions: list[Prediction] = [
            Translation(line, alignment=[] if request.aligned else None) for line in request.lines
        ]
        for number, hypotheses, alignment in zip(ids, generated, alignments, strict=True):
            predictions[number] = Translation(
                request.lines[number],
                [before_stop(text(output.tokens), request.stop) for output in hypotheses],
                [output.score for output in hypotheses],
                [output.finished for output in hypotheses],
                tokens=text.tokens_of(hypotheses) if request.alternatives else None,
                alignment=alignment,
            )
        counts = count_read(sources, self.tokenizer) + count_generated(generated)
        return Answer(predictions, counts, read.refusals)

    def generator(
        self, model: Stepper, request: Request, engine: Engine
    ) -> tuple[Generator, OutputText]:
        return self._translator.generator(model, request, engine)

    def refusal(self, line: str, ids: Ids) -> str | None:
        most = self.config.data.max_length
        if len(ids) > most:
            too_long = (
                f"{len(ids)} tokens, and this run was trained on lines of up to {most} "
                f"(data.max_length). Split the line."
            )
            return super().refusal(line, ids) or too_long
        return super().refusal(line, ids)

    def trace(
        self,
        model: EncoderDecoder,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes while it reads a text and generates its output."""
        ids = self.read_one(text, where="trace")
        target = self.target_tokenizer
        if output is None:
            greedy = Decode(max_new_tokens=self.config.decode.max_new_tokens)
            whole = not trace.switches.names
            stepper = model if whole else Replay(partial(_switched, model, trace))
            ((answer,),) = self._translator.generate(stepper, [ids], greedy, engine)
            produced = [*answer.tokens, target.end] if answer.finished else answer.tokens
        else:
            produced = [*target.encode([output])[0], target.end]
        source, lengths = source_batch([ids], self.tokenizer.special).to(engine.device)
        decoder_input = source.new_tensor([[target.special.first, *produced[:-1]]])
        trace.tokens["source"] = self.tokenizer.tokens(source[0].tolist())
        trace.tokens["target"] = target.tokens(decoder_input[0].tolist())
        trace.tokens["output"] = target.tokens(produced)
        with torch.inference_mode():
            model(source, decoder_input, source_lengths=lengths, trace=trace)
        return trace

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        sources = self.tokenizer.encode([source for source, _ in pairs])
        targets = self.target_tokenizer.encode([target for _, target in pairs])
        end, first = self.tokenizer.end, self.target_tokenizer.special.first
        return VerifyInputs(
            [[*source, end] for source in sources], [[first, *target] for target in targets]
        )


def _switched(
    model: EncoderDecoder, trace: Trace, source: Tensor, target: Tensor, **lengths: Any
) -> Tensor:
    """The logits of a model without what a trace turns off."""
    output: Tensor = model(source, target, trace=Trace(without=trace.switches.names), **lengths)
    return output
