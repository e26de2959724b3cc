"""What tasks on pairs share: a text, and what should come of it."""

from abc import abstractmethod
from collections.abc import Callable

from regard.config import Config
from regard.data.batches import BatchStream, Collate, Examples
from regard.data.pairs import Measure, PairSource
from regard.data.splits import SPLITS, Pair, Split
from regard.data.tokenizer import UNKNOWN
from regard.tasks.task import Task, refuse_unknown, unknown_tokens

EVALUATED_TOGETHER = 8192
"""Tokens of a batch when evaluating, padding counted."""


class PairTask(Task):
    """Reads pairs of texts, and keeps their token ids."""

    TOKEN_SIDES = 2
    """How many sides of a pair are texts: not the name of a class."""

    def __init__(self, config: Config, *, measures: tuple[Measure, Measure]) -> None:
        super().__init__(config)
        self.sources = {
            split: PairSource(getattr(config.data, split), split, config.data, measures)
            for split in SPLITS
        }
        self._encoded: dict[Split, Examples] = {}

    @property
    def fingerprint(self) -> str:
        return self.sources["train"].fingerprint

    def pairs(self, split: Split, *, epoch: int = 0) -> list[Pair]:
        """Source and target of every example."""
        return self.sources[split].pairs(seed=self.config.seed, epoch=epoch)

    def check_data(self) -> None:
        for split in SPLITS:
            self.pairs(split)

    def notices(self) -> list[str]:
        found = []
        for split, source in self.sources.items():
            if source.skipped:
                found.append(f"{source.path}: {source.skipped:,} lines were left out.")
            sides = self._encoded.get(split, ([], []))[: self.TOKEN_SIDES]
            rows = [row for side in sides for row in side]
            unknown = sum(row.count(UNKNOWN) for row in rows)
            found += unknown_tokens(split, unknown, sum(map(len, rows)))
        return found

    @abstractmethod
    def encode(self, pairs: list[Pair]) -> Examples:
        """Sources and targets as token ids."""

    @property
    @abstractmethod
    def collate(self) -> Collate:
        """How examples become a batch."""

    def batches(self) -> BatchStream:
        train = self.config.train
        return BatchStream(
            self._training_examples,
            self.collate,
            seed=self.config.seed,
            batch_tokens=train.batch_tokens,
            batch_size=train.batch_size,
        )

    def _training_examples(self, epoch: int) -> Examples:
        return self.examples("train", epoch=epoch)

    def examples(self, split: Split, *, epoch: int = 0) -> Examples:
        """The pairs of a split as token ids; kept, unless every epoch has new ones."""
        if split not in self._encoded or self.sources[split].endless:
            self._encoded[split] = self.encode(self.pairs(split, epoch=epoch))
        return self._encoded[split]

    def batches_of(self, split: Split) -> BatchStream:
        """All of a split, to be evaluated."""
        examples = self.examples(split)
        return BatchStream(
            lambda epoch: examples, self.collate, seed=0, batch_tokens=EVALUATED_TOGETHER
        )

    def check(self, line: str, *, where: str) -> None:
        """Refuse a line that the model cannot read whole."""
        refuse_unknown(self.tokenizer.unknown(line), self.tokenizer.sample(), where=where)

    def example(self, fits: Callable[[str], bool]) -> str | None:
        return self.first_to_show((source for source, _ in self.pairs("test")), fits)
