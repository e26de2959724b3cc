"""What tasks on pairs share: a text, and what should come of it."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.config import Config
from regard.data.batches import BatchStream, Collate
from regard.data.bpe_dropout import BpeDropout
from regard.data.corpus import key_of, make_corpus, open_corpus
from regard.data.examples import Examples, Ids, InMemory
from regard.data.pairs import PairSource
from regard.data.records import Columns, Fault, Row
from regard.data.splits import SPLITS, Pair, Split
from regard.data.tokenizer import UNKNOWN, Tokenizer
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.tasks.task import Task, refuse_unknown, unknown_tokens
from regard.training.loss import Sums

EVALUATED_TOGETHER = 8192
"""Tokens of a batch when evaluating, padding counted; at most as many as one of training has."""

EVALUATING = "a smaller train.batch_tokens (or batch_size), to which evaluation keeps as well"
"""What to do where there is no memory for it."""

ENCODED_TOGETHER = 1024
"""Lines that become token ids at a time."""


class Encoded(NamedTuple):
    """A line and its token ids."""

    row: Row
    source: Ids
    target: Ids

    @property
    def sides(self) -> tuple[Ids, Ids]:
        return self.source, self.target


class PairTask(Task):
    """Reads pairs of texts as token ids: a training file's are kept on disk, others in memory."""

    NAMES: Columns = ("source", "target")
    """What the sides are called."""
    TOKEN_SIDES = 2
    """How many sides of a pair are texts: not the name of a class."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.sources = {
            split: PairSource(getattr(config.data, split), split, config.data, self.NAMES)
            for split in SPLITS
        }
        self._examples: dict[Split, Examples] = {}
        self._pairs: dict[Split, list[Pair]] = {}
        self._newest: tuple[int, Examples] | None = None
        self._read_tokens = self._read_unknown = 0

    @property
    def fingerprint(self) -> str:
        return self.sources["train"].fingerprint

    def check_data(self) -> None:
        for split in SPLITS:
            self.examples(split)

    def notices(self) -> list[str]:
        found, told = [], set()  # splits of one file meet the same faults: they are told once
        for split, source in self.sources.items():
            reasons = {
                reason: count
                for reason, count in source.tally.reasons().items()
                if (source.path, reason) not in told
            }
            told |= {(source.path, reason) for reason in reasons}
            if reasons:
                count = sum(reasons.values())
                lines = "line was" if count == 1 else "lines were"
                found.append(f"{source.path}: {count:,} {lines} left out: {'; '.join(reasons)}.")
            if source.every > 1:
                found.append(
                    f"{source.path}: the vocabulary is learned from one in {source.every:,} of its "
                    f"lines, spread over all of it."
                )
            found += unknown_tokens(f"data.{split}", source.tally.unknown, source.tally.tokens)
        return found + unknown_tokens("the input", self._read_unknown, self._read_tokens)

    def count_read(self, rows: Sequence[Ids]) -> None:
        """Remember how much of what was given to predict is unknown, to say so."""
        self._read_tokens += sum(map(len, rows))
        self._read_unknown += sum(row.count(UNKNOWN) for row in rows)

    @abstractmethod
    def encode(self, rows: Sequence[Row]) -> tuple[list[Ids], list[Ids]]:
        """Sources and targets as token ids."""

    @property
    @abstractmethod
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        """Of the sides that are texts."""

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
        dropout = bool(self.config.tokenizer.dropout)
        if not self.sources["train"].endless and not dropout:
            return self.examples("train")
        if self._newest is None or self._newest[0] != epoch:
            lines = self.read("train", epoch=epoch)
            self._newest = (
                epoch,
                _in_memory(list(self._cut_anew(lines, epoch) if dropout else lines)),
            )
        return self._newest[1]

    def _cut_anew(self, lines: Iterable[Encoded], epoch: int) -> Iterator[Encoded]:
        """The same lines with merges left out; a text that grew past max_length stays as it was."""
        rate, most = self.config.tokenizer.dropout, self.config.data.max_length
        random = np.random.default_rng([self.config.seed, epoch])
        cutters = [BpeDropout(tokenizer, rate) for tokenizer in self.tokenizers]
        for one in lines:
            sides = [one.source, one.target]
            for side, cutter in enumerate(cutters):
                text = (one.row.source, one.row.target)[side]
                ids = cutter.encode(text, random)
                sides[side] = ids if len(ids) <= most else sides[side]
            yield Encoded(one.row, *sides)

    def pairs(self, split: Split) -> list[Pair]:
        """Source and target of every example, as text."""
        if split not in self._pairs:
            self._keep(split)
        return self._pairs[split]

    def examples(self, split: Split) -> Examples:
        """The token ids of a split; of the first epoch, if every one has new ones."""
        source = self.sources[split]
        if source.endless:
            return self._training_examples(0)
        if split not in self._examples:
            if split == "train" and not source.generated:
                self._examples[split] = self._corpus()
            else:
                self._keep(split)
        return self._examples[split]

    def _keep(self, split: Split) -> None:
        """Texts and token ids of a whole split."""
        found = list(self.read(split))
        self._pairs[split] = [(row.source, row.target) for row, _, _ in found]
        self._examples[split] = _in_memory(found)

    def _corpus(self) -> Examples:
        """The training files as token ids on disk: those that are there, or new ones."""
        source, data = self.sources["train"], self.config.data
        made_with = hashlib.sha256(repr(sorted(self.files.items())).encode()).hexdigest()
        key = key_of(
            self.fingerprint,
            [path.name for path in source.files.paths],  # its end is its format
            source.columns,
            data.max_length,
            data.on_bad_line,
            (data.held_out, data.split_seed),
            made_with,
        )
        found = open_corpus(key, source.tally)
        return found or make_corpus(key, self.read("train"), tally=source.tally)

    def read(self, split: Split, *, epoch: int = 0) -> Iterator[Encoded]:
        """The usable lines of a split with their token ids, as they come from disk."""
        source = self.sources[split]
        rows = source.rows(seed=self.config.seed, epoch=epoch)
        while chunk := list(islice(rows, ENCODED_TOGETHER)):
            encoded = list(map(Encoded, chunk, *self.encode(chunk)))
            faults = self.faults(encoded, source)
            for number in sorted(faults):
                source.tally.meet(faults[number])
            good = [one for number, one in enumerate(encoded) if number not in faults]
            texts = [one.sides[side] for one in good for side in range(self.TOKEN_SIDES)]
            source.tally.use(len(good), texts, unknown=UNKNOWN)
            yield from good
        if not source.tally.rows:
            reasons = "; ".join(source.tally.reasons())
            raise UserError(
                f"{source.path}: there is no usable line in it for data.{split}"
                f"{f': {reasons}' if reasons else ''}."
            )

    def faults(self, encoded: Sequence[Encoded], source: PairSource) -> dict[int, Fault]:
        """Which of these lines cannot be used, now that their tokens are known, and why."""
        most = self.config.data.max_length
        found: dict[int, Fault] = {}
        for side, name in enumerate(self.NAMES[: self.TOKEN_SIDES]):
            for number, one in enumerate(encoded):
                count = len(one.sides[side])
                if count <= most or number in found:
                    continue
                if source.generated:
                    text = (one.row.source, one.row.target)[side]
                    raise UserError(
                        f"data.max_length={most} is less than the {count} tokens of {text[:60]!r}."
                    )
                found[number] = Fault(
                    source.place(side),
                    one.row.line,
                    f"the {name} has {count:,} tokens where data.max_length={most}",
                    f"the {name} has more tokens than data.max_length={most}",
                )
        return found

    @abstractmethod
    def sums(self, model: Callable[..., Any], batch: Any, *, smoothing: float) -> Sums:
        """The loss of a batch, and what else is counted in it."""

    def sums_of(self, model: Callable[..., Any], split: Split, *, engine: Engine) -> Sums:
        """Of all of a split, without smoothing."""
        total = Sums()
        with (
            torch.inference_mode(),
            engine.autocast(),
            naming_the_batch(f"a batch of data.{split}", remedy=EVALUATING),
        ):
            for batch in self.batches_of(split).epoch(0):
                total = total + self.sums(model, batch.to(engine.device), smoothing=0.0)
        return total

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

    def check(self, line: str, *, where: str) -> None:
        """Refuse a line that the model cannot read whole.

        Pieces are made for any text, and what they lack is <unk> in it; where tokens are words or
        characters, an unknown one is more likely a mistake. Not so in translation: sentences have
        words that no training text had. Whatever is read as <unk> is counted.
        """
        whole = self.config.tokenizer.kind in ("words", "chars")
        if whole and self.config.data.scores != "translation":
            refuse_unknown(self.tokenizer.unknown(line), self.tokenizer.sample(), where=where)

    def example(self, fits: Callable[[str], bool]) -> str | None:
        return self.first_to_show((source for source, _ in self.pairs("test")), fits)


def _in_memory(found: Sequence[Encoded]) -> InMemory:
    return InMemory([one.source for one in found], [one.target for one in found])
