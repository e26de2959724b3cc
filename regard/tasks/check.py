"""A report on the data of a run: lines kept and left out, lengths, unknown tokens, overlap."""

import hashlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard.data.splits import SPLITS, Split

if TYPE_CHECKING:
    from regard.tasks.pair_task import PairTask

SHOWN = 5
"""How many lines are named as examples."""


@dataclass
class SplitReport:
    """What is in one split, and what is left out of it."""

    kept: int
    truncated: int
    """How many texts are cut to data.max_length; 0 where data.too_long does not ask for it."""
    left_out: dict[str, int]
    """How many lines cannot be used, by reason."""
    places: dict[str, list[str]]
    """The first of those lines, as file:line, by reason."""
    tokens: int
    unknown: int
    duplicates: int
    """How many pairs are repetitions of an earlier one."""
    lengths: dict[str, dict[int, int]]
    """For each side, how many texts have each number of tokens."""
    vocabulary_from_one_in: int
    """The vocabulary is learned from one line in this many; above 1 only for train."""
    in_train: int = 0
    """How many pairs are also in train."""
    sources_in_train: int = 0
    """How many sources are also in train, with any target."""
    in_train_lines: list[int] = field(default_factory=list)
    """The line numbers of the first pairs that are also in train."""

    @property
    def coverage(self) -> float:
        """The fraction of tokens that are in the vocabulary."""
        return 1 - self.unknown / max(1, self.tokens)

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {**vars(self), "coverage": self.coverage}


def check(task: "PairTask") -> dict[Split, SplitReport]:
    """Read all data of a task that skips bad lines, and account for every line of it."""
    reports: dict[Split, SplitReport] = {}
    train: Hashes | None = None
    reported: set[tuple[object, ...]] = set()
    for split in SPLITS:
        reports[split], hashes = _read(task, split)
        if task.config.data.held_out:
            _report_once(reports[split], task.sources[split].path, reported)
        if train is None:
            train = hashes
        else:
            _compare(reports[split], hashes, train)
    return reports


class Hashes(NamedTuple):
    """A hash of every pair and of every source of a split, and the line number of each."""

    pairs: np.ndarray
    sources: np.ndarray
    lines: np.ndarray


def _read(task: "PairTask", split: Split) -> tuple[SplitReport, Hashes]:
    """The report on one split, and the hashes by which it is compared with another."""
    pairs, sources, lines = array("Q"), array("Q"), array("Q")
    names = task.names[: task.TOKEN_SIDES]
    lengths: dict[str, dict[int, int]] = {name: {} for name in names}
    tally = task.sources[split].new_tally()
    for encoded in task.read(split, tally=tally):
        source, target = task.pair_of(encoded.row)
        pairs.append(_hash(source, target))
        sources.append(_hash(source))
        lines.append(encoded.row.line)
        for name, ids in zip(names, encoded.sides, strict=False):
            lengths[name][len(ids)] = lengths[name].get(len(ids), 0) + 1
    hashes = Hashes(*(np.frombuffer(part, dtype=np.uint64) for part in (pairs, sources, lines)))
    report = SplitReport(
        kept=tally.rows,
        truncated=tally.cut,
        left_out=tally.counts,
        places=tally.places,
        tokens=tally.tokens,
        unknown=tally.unknown,
        duplicates=len(hashes.pairs) - len(np.unique(hashes.pairs)),
        lengths=lengths,
        vocabulary_from_one_in=task.sources[split].every,
    )
    return report, hashes


def _report_once(report: SplitReport, path: Path, reported: set[tuple[object, ...]]) -> None:
    """Remove faults that an earlier split of the same file has reported."""
    for kind, places in list(report.places.items()):
        fault = (path, kind, report.left_out[kind], *places)
        if fault in reported:
            del report.left_out[kind], report.places[kind]
        reported.add(fault)


def _hash(*texts: str) -> int:
    digest = hashlib.blake2b("\t".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _compare(report: SplitReport, held_out: Hashes, train: Hashes) -> None:
    """Count the pairs and sources of a held-out split that are also in train."""
    pairs = np.isin(held_out.pairs, train.pairs)
    report.in_train = int(pairs.sum())
    report.sources_in_train = int(np.isin(held_out.sources, train.sources).sum())
    report.in_train_lines = [int(line) for line in held_out.lines[pairs][:SHOWN]]
