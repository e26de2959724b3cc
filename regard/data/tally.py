"""Counts of a file's lines: those used, and those left out, unless the first fault is an error."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from regard.data.examples import Ids
from regard.data.rows import Fault, Record, Row
from regard.system.errors import UserError

SHOWN = 5
"""How many places are remembered for each reason."""


@dataclass
class Tally:
    """How many lines were left out, for which reason, and where; and how many tokens were read."""

    on_bad_line: str
    """"error": the first is refused; "skip": all are counted."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many lines were left out, by reason."""
    places: dict[str, list[str]] = field(default_factory=dict)
    """The first places of each reason."""
    rows: int = 0
    """How many lines were used."""
    tokens: int = 0
    unknown: int = 0
    """How many of the tokens have no id of their own."""
    cut: int = 0
    """Texts of which only the beginning is read."""
    characters: int = 0
    """Characters of running text, the end of each document counted as one."""
    bytes: int = 0
    """The same in UTF-8."""

    @property
    def left_out(self) -> int:
        return sum(self.counts.values())

    def meet(self, fault: Fault) -> None:
        """Count a line that cannot be used, or refuse it."""
        place = fault.where(fault.file)
        if (fault.otherwise or self.on_bad_line) == "error":
            raise UserError(f"{place}: {fault.reason}. {fault.remedy}")
        kind = fault.kind or fault.reason
        self.counts[kind] = self.counts.get(kind, 0) + 1
        shown = self.places.setdefault(kind, [])
        if len(shown) < SHOWN:
            shown.append(fault.where(fault.file.name))

    def good(self, records: Iterable[Record]) -> Iterator[Row]:
        """The rows among these records; faults are counted or refused."""
        for record in records:
            if isinstance(record, Fault):
                self.meet(record)
            else:
                yield record

    def use(self, rows: int, texts: Sequence[Ids], *, unknown: int) -> None:
        """Count lines that are used, and the tokens of their texts."""
        self.rows += rows
        self.tokens += sum(map(len, texts))
        self.unknown += sum(ids.count(unknown) for ids in texts)

    def reasons(self) -> dict[str, int]:
        """How many lines each reason concerns, by a clause with count, reason and first places."""
        return {
            f"{count:,} where {kind} ({', '.join(self.places[kind])}"
            f"{', …' if count > len(self.places[kind]) else ''})": count
            for kind, count in self.counts.items()
        }

    def replace(self, counted: dict[str, Any]) -> None:
        """Replace all counts by those that `counted` returned earlier."""
        earlier = Tally(self.on_bad_line, **counted)
        for count in fields(Tally):
            setattr(self, count.name, getattr(earlier, count.name))

    def counted(self) -> dict[str, Any]:
        """All counts, for `replace`."""
        return {
            count.name: getattr(self, count.name)
            for count in fields(Tally)
            if count.name != "on_bad_line"
        }
