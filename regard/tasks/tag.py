"""tag: a tag for every word of a sentence, such as where names begin and end."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import TARGETS, Collate
from regard.data.examples import Ids
from regard.data.lines import why_unreadable
from regard.data.row_source import RowSource, listed_classes
from regard.data.rows import Fault, Field, Row
from regard.data.splits import Pair, Split
from regard.data.tag_schemes import (
    Entity,
    InvalidTagsError,
    entities,
    iob2,
    may_follow,
)
from regard.data.tokenizer import Tokenizer
from regard.data.word_pieces import WordPieces, word_pieces
from regard.metrics.entities import EntityCounts
from regard.metrics.output import Output
from regard.models import Tagger
from regard.models.build import tagger
from regard.nn import Trace
from regard.nn.crf import Transitions
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.system.numbers import refuse_nan
from regard.system.ranks import World
from regard.tasks.evaluation import Evaluation
from regard.tasks.labels import Labels
from regard.tasks.pair_task import EVALUATING, PairTask, Sources
from regard.tasks.prediction import Prediction
from regard.tasks.request import Answer, Request, read_lines, too_long
from regard.tasks.split_data import Encoded
from regard.tasks.tag_batch import (
    NO_TAG,
    TagBatch,
    at_words,
    collate_tags,
    tag_sums,
    unlabelled,
)
from regard.tasks.tag_labels import fault_of, labels_of
from regard.tasks.tagging import TaggedEntity, Tagging, listed_words
from regard.tasks.task import VerifyInputs
from regard.training.gradients import Carried, sums_over_ranks
from regard.training.loss import Sums

MAX_ROWS = 128
"""The most rows of a batch when predicting."""


class Tag(PairTask):
    """Words with tags, an encoder and a linear layer on the first piece of each word, entity F1."""

    FILES = ("tokenizer.json", "labels.json")
    FIELDS = (Field("words", "words"), Field("tags", "tags", of="words"))
    TOKEN_SIDES = 1
    generates = False

    def __init__(
        self,
        config: Config,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        sources: Sources | None = None,
    ) -> None:
        super().__init__(config, sources=sources)
        self.tokenizer = tokenizer
        self.labels = labels

    @classmethod
    def fields_of(cls, config: Config) -> tuple[Field, ...]:
        """Words, or characters that are taken for words, and their tags."""
        words, tags = cls.FIELDS
        by_character = config.data.unit == "character"
        return (Field("words", "characters") if by_character else words), tags

    def pair_of(self, row: Row) -> Pair:
        return " ".join(row.source), " ".join(row.target)

    @property
    def reading(self) -> tuple[object, ...]:
        data = self.config.data
        return (self.config.model.framed, data.scheme, data.unit)

    @classmethod
    def learn(cls, config: Config) -> "Tag":
        sources = cls.sources_of(config)
        train = sources["train"]
        tokenizer = Tokenizer.train(
            (" ".join(row.source) for row in train.to_learn_from()),
            kind=config.tokenizer.kind,
            **config.tokenizer.options,
        )
        return cls(config, tokenizer, labels_of(config, train), sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "Tag":
        labels = Labels.read(files, cls.FILES[1], normalize=config.tokenizer.normalize)
        return cls(config, Tokenizer.read(files, cls.FILES[0]), labels)

    @property
    def files(self) -> dict[str, str]:
        return dict(zip(self.FILES, (self.tokenizer.json, self.labels.json), strict=True))

    def new_model(self) -> Tagger:
        return tagger(
            self.config,
            vocab=len(self.tokenizer),
            tags=len(self.labels),
            padding=self.tokenizer.padding,
        )

    @property
    def collate(self) -> Collate:
        return partial(collate_tags, ids=self.tokenizer.special)

    @property
    def marks_entities(self) -> bool:
        """Whether tags say where entities begin and end."""
        return self.config.data.scheme != "none"

    @cached_property
    def allowed(self) -> Transitions:
        """0 where a tag may stand after another, −∞ where not."""
        names: list[str | None] = [*self.labels.names]
        scores = torch.tensor(
            [
                [0.0 if self._may_follow(tag, before) else -torch.inf for tag in self.labels.names]
                for before in [None, *names]
            ]
        )
        return Transitions(scores[0], scores[1:], torch.zeros(len(names)))

    def _may_follow(self, tag: str, before: str | None) -> bool:
        return not self.marks_entities or may_follow(tag, before)

    def pieces(self, sentences: Sequence[Sequence[str]]) -> list[WordPieces]:
        """The tokens of sentences of words as the model reads them."""
        return word_pieces(sentences, self.tokenizer, framed=self.config.model.framed)

    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        """A sentence has no target if its tags are not valid, or not known."""
        pieces = self.pieces([row.source for row in rows])
        targets = [self._target(row, words) for row, words in zip(rows, pieces, strict=True)]
        return [words.ids for words in pieces], targets

    def _target(self, row: Row, words: WordPieces) -> Ids:
        try:
            numbers = self._numbers(row.target)
        except InvalidTagsError:
            return []
        target = [NO_TAG] * len(words.ids)
        for start, number in zip(words.starts, numbers, strict=True):
            target[start] = number + 1
        return target

    def _numbers(self, tags: Sequence[str]) -> list[int]:
        """The number of each tag; InvalidTagsError where they are not valid, or one is unknown."""
        numbers = []
        for place, tag in enumerate(iob2(tags, self.config.data.scheme)):
            number = self.labels.number(tag)
            if number is None:
                known = listed_classes(self.labels.names)
                raise InvalidTagsError(
                    place, f"the tag {tag[:40]!r} is unknown; data.train has {known}"
                )
            numbers.append(number)
        return numbers

    def faults(self, encoded: Sequence[Encoded], source: RowSource) -> dict[int, Fault]:
        faults = super().faults(encoded, source)
        for number, line in enumerate(encoded):
            if line.target or number in faults:
                continue
            try:
                self._numbers(line.row.target)
            except InvalidTagsError as error:
                faults[number] = fault_of(line.row, source, error)
        return faults

    def loss(self, model: Callable[..., Any], batch: TagBatch, carried: Carried) -> Sums:
        """Σ −log p(tag | sentence) over words, smoothed as the configuration says.

        With a conditional random field, Σ −log p(tags | sentence) over sentences.
        """
        return self.sums(model, batch, smoothing=self.config.training.label_smoothing)

    def sums(self, model: Callable[..., Any], batch: TagBatch, *, smoothing: float) -> Sums:
        return tag_sums(model, batch, at_words(model, batch), smoothing=smoothing)

    def evaluate(
        self,
        model: Tagger,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The loss of a split, and how well its best valid sequences of tags find its entities.

        Every sentence is among the outputs, unless only some metrics are asked for.
        """
        total, counts = self._score(model, split, engine=engine, world=world or World())
        entity_metrics = counts.metrics() if self.marks_entities else {}
        outputs = [] if metrics is not None else self._outputs(model, split, engine=engine)
        return Evaluation(
            len(self.examples(split)),
            self.means(total) | entity_metrics,
            outputs=outputs,
            warnings=self.warnings([split]),
            by_type=counts.by_type(),
        )

    def _score(
        self, model: Tagger, split: Split, *, engine: Engine, world: World
    ) -> tuple[Sums, EntityCounts]:
        """The sums over all of a split, and its entities; each rank computes some batches."""
        total, counts = Sums(), EntityCounts()
        with (
            torch.inference_mode(),
            engine.autocast(),
            naming_the_batch(f"a batch of data.{split}", remedy=EVALUATING),
        ):
            for on_cpu in world.share(self.batches_of(split).epoch(0)):
                batch = on_cpu.to(engine.device)
                logits = at_words(model, batch)
                best = self._best(model, logits, batch.words)
                sums = tag_sums(model, batch, logits)
                sums[TARGETS].correct = (best == batch.tags).sum()
                total = total + sums
                if self.marks_entities:
                    self._count_entities(counts, batch, best)
        ranks = world.gather(counts.as_json())
        return sums_over_ranks(total, world), EntityCounts.added(ranks)

    def _best(
        self, model: Tagger, logits: Float[Tensor, "B W C"], words: Int[Tensor, "B"]
    ) -> Int[Tensor, "B W"]:
        """The best valid tags of each sentence."""
        refuse_nan(logits)
        return model.best(logits, words, self.allowed.to(logits.device))

    def _count_entities(
        self, counts: EntityCounts, batch: TagBatch, best: Int[Tensor, "B W"]
    ) -> None:
        """Count the entities of a batch."""
        for expected, predicted, length in zip(
            batch.tags.tolist(), best.tolist(), batch.words.tolist(), strict=True
        ):
            counts.add(self._entities(expected[:length]), self._entities(predicted[:length]))

    def _entities(self, numbers: Sequence[int]) -> list[Entity]:
        return entities([self.labels[number] for number in numbers], "iob2")

    def _outputs(self, model: Tagger, split: Split, *, engine: Engine) -> list[Output]:
        """Every sentence with its tags and the best ones."""
        outputs = []
        source = self.sources[split]
        for line in self.read(split, tally=source.new_tally()):
            expected = " ".join(iob2(line.row.target, self.config.data.scheme))
            outputs.append((line.row.source, expected))
        found = self._tags(model, self.pieces([words for words, _ in outputs]), engine=engine)
        return [
            Output(" ".join(words), expected, " ".join(tags))
            for (words, expected), tags in zip(outputs, found, strict=True)
        ]

    def predict(self, model: Tagger, request: Request, *, engine: Engine) -> Answer:
        """The best valid tags of each line, and the entities that they mark."""
        if request.decode.n_best > 1:
            raise UserError(f"n_best={request.decode.n_best}: a tagger has one output per line.")
        read = read_lines(request, self.tokenizer, self.refusal, encode=self._ids)
        predictions: list[Prediction] = [Tagging(line) for line in request.lines]
        sentences = {number: self.words(request.lines[number]) for number in read.ids}
        sentences = {number: words for number, words in sentences.items() if words}
        found = self._tags(model, self.pieces(list(sentences.values())), engine=engine)
        for (number, words), tags in zip(sentences.items(), found, strict=True):
            marked = entities(tags, "iob2") if self.marks_entities else []
            predictions[number] = Tagging(
                request.lines[number],
                [" ".join(tags)],
                words,
                tags,
                [
                    TaggedEntity(type, " ".join(words[start:end]), start, end)
                    for type, start, end in marked
                ],
            )
        return Answer(predictions, read.counts, read.refusals)

    def _tags(
        self, model: Tagger, sentences: Sequence[WordPieces], *, engine: Engine
    ) -> list[list[str]]:
        """The best valid tags of each sentence; those of like length are read together."""
        tags: list[list[str]] = [[] for _ in sentences]
        order = sorted(range(len(sentences)), key=lambda number: len(sentences[number].ids))
        for begin in range(0, len(order), MAX_ROWS):
            numbers = order[begin : begin + MAX_ROWS]
            batch = unlabelled(
                [sentences[number] for number in numbers], ids=self.tokenizer.special
            )
            with torch.inference_mode(), engine.autocast():
                batch = batch.to(engine.device)
                best = self._best(model, at_words(model, batch), batch.words).tolist()
            for number, row in zip(numbers, best, strict=True):
                length = len(sentences[number].starts)
                tags[number] = [self.labels[tag] for tag in row[:length]]
        return tags

    def words(self, line: str) -> list[str]:
        """The words of a line: a JSON list of them, {"words": [...]}, or what is between spaces.

        With data.unit=character every character of a text is one.
        """
        listed = listed_words(line)
        if listed is not None:
            return listed
        if self.config.data.unit == "character":
            return list("".join(line.split()))
        return [word for word in line.split(" ") if word]

    def _ids(self, lines: Sequence[str]) -> list[Ids]:
        """Their tokens; none, where a word cannot be read: JSON can spell half of a character."""
        sentences = [self.words(line) for line in lines]
        readable = [[] if any(map(why_unreadable, words)) else words for words in sentences]
        return [words.ids for words in self.pieces(readable)]

    def refusal(self, line: str, ids: Ids) -> str | None:
        """Words that no training text had are read as <unk>, and counted."""
        words = self.words(line)
        fault = next(filter(None, map(why_unreadable, words)), None)
        if fault is not None:
            return f"{fault}."
        if any(not word or word.isspace() for word in words):
            return "one of the words is empty."
        return too_long(self.config, len(ids))

    def trace(
        self,
        model: Tagger,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes while it reads a sentence."""
        words = self.words(text)
        fault = why_unreadable(text) or (None if words else "there are no words")
        (ids,) = self._ids([text])
        fault = fault or self.refusal(text, ids)
        if fault is not None:
            raise UserError(f"trace: {fault.rstrip('.')}.")
        (pieces,) = self.pieces([words])
        trace.tokens["source"] = self.tokenizer.tokens(pieces.ids)
        batch = unlabelled([pieces], ids=self.tokenizer.special).to(engine.device)
        with torch.inference_mode():
            best = self._best(model, at_words(model, batch, trace=trace), batch.words)
        trace.tokens["output"] = [self.labels[tag] for tag in best[0].tolist()]
        return trace

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        sentences = [source.split(" ") for source, _ in pairs]
        return VerifyInputs([words.ids for words in self.pieces(sentences)])
