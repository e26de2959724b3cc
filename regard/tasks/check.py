"""What would become of the data of a run: kept, left out and why, how long, how well known."""

import hashlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.splits import SPLITS, Split
from regard.system.errors import UserError
from regard.tasks.pair_task import PairTask
from regard.tasks.task import Task

SHOWN = 5
"""Lines named as examples."""


@dataclass
class SplitReport:
    """One part of the data."""

    kept: int
    truncated: int
    """Always 0: a text that is too long is refused or left out, never cut."""
    left_out: dict[str, int]
    """Lines that cannot be used, by reason."""
    places: dict[str, list[str]]
    """Where the first of them stand."""
    tokens: int
    unknown: int
    duplicates: int
    """Pairs that stood there before."""
    lengths: dict[str, dict[int, int]]
    """Texts by their number of tokens, for each side."""
    vocabulary_from_one_in: int
    """Of how many lines one was taken to learn the vocabulary from; of train alone."""
    in_train: int = 0
    """Pairs that are in train as well."""
    sources_in_train: int = 0
    """Sources that are in train as well, whatever their target."""
    in_train_lines: list[int] = field(default_factory=list)
    """The lines of the first of those pairs."""

    @property
    def coverage(self) -> float:
        """The share of tokens that have an id of their own."""
        return 1 - self.unknown / max(1, self.tokens)


def check(task: Task) -> dict[Split, SplitReport]:
    """Read all data of a task whose bad lines are skipped, and account for every line of it."""
    if not isinstance(task, PairTask):
        raise UserError(
            f"data check is for pairs of texts; task={task.config.task} reads running text, all of "
            f"it."
        )
    found: dict[Split, SplitReport] = {}
    train: Hashes | None = None
    told: set[tuple[object, ...]] = set()
    for split in SPLITS:
        found[split], hashes = _read(task, split)
        if task.config.data.held_out:
            _tell_once(found[split], task.sources[split].path, told)
        if train is None:
            train = hashes
        else:
            _compare(found[split], hashes, train)
    return found


class Hashes(NamedTuple):
    """A number for every pair of a split, for every source, and the line of each."""

    pairs: np.ndarray
    sources: np.ndarray
    lines: np.ndarray


def _read(task: PairTask, split: Split) -> tuple[SplitReport, Hashes]:
    """The report on a split by itself, and what it can be compared with others by."""
    pairs, sources, lines = array("Q"), array("Q"), array("Q")
    names = task.names[: task.TOKEN_SIDES]
    lengths: dict[str, dict[int, int]] = {name: {} for name in names}
    for encoded in task.read(split):
        pairs.append(_hash(encoded.row.source, encoded.row.target))
        sources.append(_hash(encoded.row.source))
        lines.append(encoded.row.line)
        for name, ids in zip(names, encoded.sides, strict=False):
            lengths[name][len(ids)] = lengths[name].get(len(ids), 0) + 1
    tally = task.sources[split].tally
    hashes = Hashes(*(np.frombuffer(one, dtype=np.uint64) for one in (pairs, sources, lines)))
    report = SplitReport(
        kept=tally.rows,
        truncated=0,
        left_out=tally.counts,
        places=tally.places,
        tokens=tally.tokens,
        unknown=tally.unknown,
        duplicates=len(hashes.pairs) - len(np.unique(hashes.pairs)),
        lengths=lengths,
        vocabulary_from_one_in=task.sources[split].every,
    )
    return report, hashes


def _tell_once(report: SplitReport, path: Path, told: set[tuple[object, ...]]) -> None:
    """Splits of one file meet the same lines that cannot be parted: the first of them tells."""
    for kind, places in list(report.places.items()):
        fault = (path, kind, report.left_out[kind], *places)
        if fault in told:
            del report.left_out[kind], report.places[kind]
        told.add(fault)


def _hash(*texts: str) -> int:
    digest = hashlib.blake2b("\t".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _compare(report: SplitReport, held_out: Hashes, train: Hashes) -> None:
    """How much of a held-out part was trained on."""
    pairs = np.isin(held_out.pairs, train.pairs)
    report.in_train = int(pairs.sum())
    report.sources_in_train = int(np.isin(held_out.sources, train.sources).sum())
    report.in_train_lines = [int(line) for line in held_out.lines[pairs][:SHOWN]]


def as_json(report: SplitReport) -> dict[str, Any]:
    """The report as plain values."""
    return {**vars(report), "coverage": report.coverage}
