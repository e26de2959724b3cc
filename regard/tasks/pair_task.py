"""What tasks on pairs share: a text, and what should come of it."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import RLock
from typing import Any

import numpy as np
import torch

from regard.config import Config
from regard.data.batches import BatchStream, Collate
from regard.data.bpe_dropout import BpeDropout
from regard.data.corpus import key_of, make_corpus, open_corpus
from regard.data.examples import Examples, Ids, InMemory
from regard.data.row_source import RowSource
from regard.data.rows import Fault, Field, Row
from regard.data.splits import SPLITS, Pair, Split
from regard.data.tally import Tally
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.system.ranks import World
from regard.tasks.check import SplitReport, check
from regard.tasks.split_data import Encoded, SplitData, data_warnings
from regard.tasks.task import Task
from regard.training.gradients import sums_over_ranks
from regard.training.loss import Sums

EVALUATED_TOGETHER = 8192
"""The most tokens of a batch when evaluating, padding counted; fewer if training has fewer."""

EVALUATING = "a smaller train.batch_tokens (or batch_size), to which evaluation keeps as well"
"""What to try where there is not enough memory."""

ENCODED_TOGETHER = 1024
"""How many lines are encoded at a time."""


Sources = dict[Split, RowSource]


class PairTask(Task):
    """Reads pairs of texts as token ids: a training file's are kept on disk, others in memory."""

    FIELDS: tuple[Field, ...] = (Field("source"), Field("target"))
    """What a row has."""
    TOKEN_SIDES = 2
    """How many sides of a pair are texts: not the name of a class."""

    sources: Sources

    def __init__(self, config: Config, *, sources: Sources | None = None) -> None:
        """sources: where the pairs of each split come from, if some of it was read already."""
        super().__init__(config)
        self.sources = sources or self.sources_of(config)
        self._reading = RLock()  # held while data is read and kept: requests come from threads
        self._data: dict[Split, SplitData] = {}
        self._training_pairs: tuple[Pair, ...] | None = None
        self._newest: tuple[int, SplitData] | None = None

    @classmethod
    def sources_of(cls, config: Config) -> Sources:
        """Where the pairs of each split come from."""
        return {
            split: RowSource(getattr(config.data, split), split, config.data, cls.fields_of(config))
            for split in SPLITS
        }

    @classmethod
    def fields_of(cls, config: Config) -> tuple[Field, ...]:
        """What a row has, as the configuration says: all of FIELDS, or some."""
        return cls.FIELDS

    @property
    def names(self) -> tuple[str, ...]:
        """What the sides are called."""
        return tuple(field.name for field in self.fields_of(self.config))

    def pair_of(self, row: Row) -> Pair:
        """What goes in and what should come out, as text."""
        return row.source, row.target

    @property
    def fingerprint(self) -> str:
        return self.sources["train"].fingerprint

    def check_data(self) -> None:
        for split in SPLITS:
            self.examples(split)

    def data_report(self) -> dict[Split, SplitReport]:
        return check(self)

    def warnings(self, splits: Iterable[Split] = SPLITS) -> list[str]:
        return data_warnings(
            {split: (self.sources[split], self.data(split).tally) for split in splits}
        )

    @property
    def reading(self) -> tuple[object, ...]:
        """What token ids depend on beside data, tokenizer and length."""
        return ()

    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        """Sources and targets as token ids, one of each per row."""
        raise NotImplementedError

    def encoded(self, rows: Sequence[Row]) -> list[Encoded]:
        """These rows with their token ids; a row may also become several examples."""
        return list(map(Encoded, rows, *self.encode(rows)))

    @property
    @abstractmethod
    def collate(self) -> Collate:
        """How examples become a batch."""

    def batches(self) -> BatchStream:
        train = self.config.training
        return BatchStream(
            self._training_examples,
            self.collate,
            seed=self.config.seed,
            batch_tokens=train.batch_tokens,
            batch_size=train.batch_size,
        )

    def _training_examples(self, epoch: int) -> Examples:
        """The examples of an epoch: the same in every one, or new ones, which stay in memory.

        They are new where a generator makes them, and where tokenizer.dropout cuts them anew.
        """
        if self.sources["train"].endless or self.config.tokenizer.dropout:
            return self._new_examples(epoch).examples
        return self.examples("train")

    def _new_examples(self, epoch: int) -> SplitData:
        """The training data of an epoch that has its own; the newest is kept."""
        with self._reading:
            if self._newest is None or self._newest[0] != epoch:
                tally = self.sources["train"].new_tally()
                lines = self.read("train", epoch=epoch, tally=tally)
                kept = self._cut_anew(lines, epoch) if self.config.tokenizer.dropout else lines
                self._newest = (epoch, SplitData(_in_memory(list(kept)), tally))
            return self._newest[1]

    def _cut_anew(self, lines: Iterable[Encoded], epoch: int) -> Iterator[Encoded]:
        """The same lines with merges left out; a text that grew past max_length stays as it was."""
        rate, most = self.config.tokenizer.dropout, self.config.data.max_length
        random = np.random.default_rng([self.config.seed, epoch])
        cutters = [BpeDropout(tokenizer, rate) for tokenizer in self.tokenizers]
        for line in lines:
            sides = [line.source, line.target]
            for side, cutter in enumerate(cutters):
                ids = self.side_anew(line.row, side, partial(cutter.encode, random=random))
                sides[side] = ids if len(ids) <= most else sides[side]
            yield Encoded(line.row, sides[0], sides[1], line.cut)

    def side_anew(self, row: Row, side: int, cut: Callable[[str], Ids]) -> Ids:
        """The ids of one side whose texts are cut anew."""
        return cut(self.pair_of(row)[side])

    def data(self, split: Split) -> SplitData:
        """What is read of a split, once; of the first epoch, if every one has new examples."""
        source = self.sources[split]
        if source.endless:
            return self._new_examples(0)
        with self._reading:
            if split not in self._data:
                on_disk = split == "train" and not source.generated
                self._data[split] = self._corpus() if on_disk else self._in_memory(split)
            return self._data[split]

    def examples(self, split: Split) -> Examples:
        """The token ids of a split."""
        return self.data(split).examples

    def pairs(self, split: Split) -> list[Pair]:
        """Source and target of every example, as text; those of train are kept once requested."""
        if split != "train":
            return list(self.data(split).pairs or ())
        with self._reading:
            if self._training_pairs is None:
                self._training_pairs = tuple(self.pair_of(line.row) for line in self.read("train"))
            return list(self._training_pairs)

    def _in_memory(self, split: Split) -> SplitData:
        """Token ids of a whole split, with its texts unless it is train."""
        tally = self.sources[split].new_tally()
        lines = list(self.read(split, tally=tally))
        pairs = None if split == "train" else tuple(self.pair_of(line.row) for line in lines)
        return SplitData(_in_memory(lines), tally, pairs)

    def _corpus(self) -> SplitData:
        """The training files as token ids on disk: those that are there, or new ones."""
        source, data = self.sources["train"], self.config.data
        made_with = hashlib.sha256(repr(sorted(self.files.items())).encode()).hexdigest()
        key = key_of(
            self.fingerprint,
            [path.name for path in source.files.paths],  # its end is its format
            source.columns,
            (data.max_length, *self.reading),
            (data.on_bad_line, data.too_long),
            (data.held_out, data.split_seed),
            made_with,
        )
        tally = source.new_tally()
        corpus = open_corpus(key, tally)
        if corpus is None:
            corpus = make_corpus(key, self.read("train", tally=tally), tally=tally)
        return SplitData(corpus, tally)

    def read(
        self, split: Split, *, epoch: int = 0, tally: Tally | None = None
    ) -> Iterator[Encoded]:
        """The usable lines of a split with their token ids, as they come from disk.

        tally: counts those lines, and the lines that are left out.
        """
        source = self.sources[split]
        tally = source.new_tally() if tally is None else tally
        rows = source.rows(seed=self.config.seed, epoch=epoch, tally=tally)
        while chunk := list(islice(rows, ENCODED_TOGETHER)):
            encoded = self.encoded(chunk)
            faults = self.faults(encoded, source)
            for number in sorted(faults):
                tally.meet(faults[number])
            good = [line for number, line in enumerate(encoded) if number not in faults]
            self._count(good, tally)
            yield from good
        if not tally.rows:
            reasons = "; ".join(tally.reasons())
            raise UserError(
                f"{source.path}: there is no usable line in it for data.{split}"
                f"{f': {reasons}' if reasons else ''}."
            )

    def _count(self, lines: Sequence[Encoded], tally: Tally) -> None:
        """Count the lines that are used, their tokens, and those that are unknown."""
        tally.use(len(lines), [], unknown=0)
        tally.cut += sum(line.cut for line in lines)
        for side, tokenizer in enumerate(self.tokenizers):
            # No id is −1: a vocabulary without an unknown token knows everything.
            unknown = -1 if tokenizer.unknown is None else tokenizer.unknown
            tally.use(0, [line.sides[side] for line in lines], unknown=unknown)

    def faults(self, encoded: Sequence[Encoded], source: RowSource) -> dict[int, Fault]:
        """Which of these lines cannot be used, now that their tokens are known, and why."""
        most = self.config.data.max_length
        faults: dict[int, Fault] = {}
        for side, field in enumerate(self.FIELDS[: self.TOKEN_SIDES]):
            the_text = f"the {field.name} {'have' if field.plural else 'has'}"
            for number, line in enumerate(encoded):
                count = len(line.sides[side])
                if count <= most or number in faults:
                    continue
                if source.generated:
                    text = self.pair_of(line.row)[side]
                    raise UserError(
                        f"data.max_length={most} is less than the {count} tokens of {text[:60]!r}."
                    )
                faults[number] = Fault(
                    source.place(side),
                    line.row.line,
                    f"{the_text} {count:,} tokens where data.max_length={most}",
                    f"{the_text} more tokens than data.max_length={most}",
                )
        return faults

    @abstractmethod
    def sums(self, model: Callable[..., Any], batch: Any, *, smoothing: float) -> Sums:
        """The loss of a batch, and what else is counted in it."""

    def sums_of(
        self, model: Callable[..., Any], split: Split, *, engine: Engine, world: World
    ) -> Sums:
        """The sums over all of a split, without smoothing; each rank computes some batches."""
        total = Sums()
        with (
            torch.inference_mode(),
            engine.autocast(),
            naming_the_batch(f"a batch of data.{split}", remedy=EVALUATING),
        ):
            for batch in world.share(self.batches_of(split).epoch(0)):
                total = total + self.sums(model, batch.to(engine.device), smoothing=0.0)
        return sums_over_ranks(total, world)

    def batches_of(self, split: Split) -> BatchStream:
        """All of a split, to be evaluated: in batches no larger than those of training."""
        examples, train = self.examples(split), self.config.train
        return BatchStream(
            lambda epoch: examples,
            self.collate,
            seed=0,
            batch_tokens=(
                EVALUATED_TOGETHER
                if train is None
                else train.batch_tokens and min(train.batch_tokens, EVALUATED_TOGETHER)
            ),
            batch_size=None if train is None else train.batch_size,
        )

    def example(self, fits: Callable[[str], bool]) -> str | None:
        return self.first_to_show((source for source, _ in self.pairs("test")), fits)


def _in_memory(lines: Sequence[Encoded]) -> InMemory:
    return InMemory([line.source for line in lines], [line.target for line in lines])
