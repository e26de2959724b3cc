"""What became of the lines of a file: used, refused at the first fault, or left out and counted."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from regard.data.examples import Ids
from regard.data.rows import Fault, Record, Row
from regard.system.errors import UserError

SHOWN = 5
"""Places remembered of each reason."""


@dataclass
class Tally:
    """How many lines were left out, for which reason, and where; and how many tokens were read."""

    on_bad_line: str
    """"error": the first is refused; "skip": all are counted."""
    counts: dict[str, int] = field(default_factory=dict)
    """Lines left out, by reason."""
    places: dict[str, list[str]] = field(default_factory=dict)
    """Where the first of them stand."""
    rows: int = 0
    """Lines used."""
    tokens: int = 0
    unknown: int = 0
    """Tokens that have no id of their own."""

    @property
    def left_out(self) -> int:
        return sum(self.counts.values())

    def meet(self, fault: Fault) -> None:
        """Count a line that cannot be used, or refuse it."""
        place = f"{fault.file}:{fault.line}"
        if self.on_bad_line == "error":
            raise UserError(
                f"{place}: {fault.reason}. Fix the line, or pass --on-bad-line skip to leave such "
                f"lines out; they are counted."
            )
        kind = fault.kind or fault.reason
        self.counts[kind] = self.counts.get(kind, 0) + 1
        shown = self.places.setdefault(kind, [])
        if len(shown) < SHOWN:
            shown.append(f"{fault.file.name}:{fault.line}")

    def good(self, records: Iterable[Record]) -> Iterator[Row]:
        """The rows among these; the faults are met."""
        for record in records:
            if isinstance(record, Fault):
                self.meet(record)
            else:
                yield record

    def use(self, rows: int, texts: Sequence[Ids], *, unknown: int) -> None:
        """Count lines that are used, and the ids of their texts."""
        self.rows += rows
        self.tokens += sum(map(len, texts))
        self.unknown += sum(ids.count(unknown) for ids in texts)

    def reasons(self) -> dict[str, int]:
        """A clause on each reason, with its count and its first places; and its count."""
        return {
            f"{count:,} where {kind} ({', '.join(self.places[kind])}"
            f"{', …' if count > len(self.places[kind]) else ''})": count
            for kind, count in self.counts.items()
        }

    def begin(self, counted: dict[str, Any] | None = None) -> None:
        """Count anew, as the file is read again; or take what was counted when it last was."""
        fresh = Tally(self.on_bad_line, **{} if counted is None else counted)
        for one in fields(Tally):
            setattr(self, one.name, getattr(fresh, one.name))

    def counted(self) -> dict[str, Any]:
        """All that `begin` takes up again."""
        return {
            one.name: getattr(self, one.name) for one in fields(Tally) if one.name != "on_bad_line"
        }
