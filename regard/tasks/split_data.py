"""SplitData: what is read of one split, once; and the sentences on what could not be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from regard.data.examples import Examples, Ids
from regard.data.row_source import RowSource
from regard.data.rows import Row
from regard.data.splits import Pair, Split
from regard.data.tally import Tally
from regard.data.text_source import TextSource
from regard.tasks.request import unknown_warning


class Encoded(NamedTuple):
    """A line and its token ids."""

    row: Row
    source: Ids
    target: Ids
    cut: bool = False
    """Whether only the beginning of its text is read."""

    @property
    def sides(self) -> tuple[Ids, Ids]:
        return self.source, self.target


@dataclass(frozen=True)
class SplitData:
    """One reading of a split; it is shared by all requests, and nothing changes it afterwards."""

    examples: Examples
    """The token ids."""
    tally: Tally
    """Which lines were left out, and how many tokens are unknown."""
    pairs: tuple[Pair, ...] | None = None
    """Source and target as text; None for training data, whose texts are not kept."""


def data_warnings(tallies: Mapping[Split, tuple[RowSource | TextSource, Tally]]) -> list[str]:
    """One sentence on each thing in these splits that could not be read as it is."""
    sentences: list[str] = []
    said = set()  # splits of one file meet the same faults: say them once
    for split, (source, tally) in tallies.items():
        reasons = {
            reason: count
            for reason, count in tally.reasons().items()
            if (source.path, reason) not in said
        }
        said |= {(source.path, reason) for reason in reasons}
        if reasons:
            count = sum(reasons.values())
            lines = "line was" if count == 1 else "lines were"
            sentences.append(f"{source.path}: {count:,} {lines} left out: {'; '.join(reasons)}.")
        if tally.cut:
            most = f"data.max_length={source.data.max_length}"
            sentences.append(
                f"{source.path}: {tally.cut:,} of {tally.rows:,} texts of data.{split} have more "
                f"tokens than {most}: their beginnings are read."
            )
        if source.every > 1:
            sentences.append(
                f"{source.path}: the vocabulary is learned from one in {source.every:,} of its "
                f"lines, spread over all of it."
            )
        sentences += unknown_warning(f"data.{split}", tally.unknown, tally.tokens)
    return sentences
