"""What commands print for people: tables, bars, sentences side by side. Imports nothing heavy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.config import About
    from regard.metrics.analysis import Analysis
    from regard.tasks.check import SplitReport

BAR = 40
"""Characters of the longest bar."""
WORST_SHOWN = 3


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["─" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def of_recipes(recipes: dict[str, "About"]) -> str:
    """What can be trained, with what to expect of it."""
    rows = [
        (
            name,
            about.summary,
            ", ".join(f"{metric} {score:g}" for metric, score in about.expected.items()),
            f"{about.minutes:g} min" if about.minutes else "",
        )
        for name, about in recipes.items()
    ]
    return table(("recipe", "what it learns", "expected", "training"), rows)


def of_metrics(metrics: dict[str, float | str]) -> str:
    """Metrics, and the signatures of some."""
    from regard.config.metrics import shown

    rows = [(name, shown(name, value)) for name, value in metrics.items()]
    return table(("metric", "score"), rows)


def by_type(metrics: dict[str, dict[str, float]]) -> str:
    """The metrics of each type, one row per type."""
    from regard.config.metrics import METRICS, shown

    names = list(next(iter(metrics.values())))

    def cell(name: str, value: float) -> str:
        return shown(name, value) if name in METRICS else f"{value:,}"

    rows = [
        (type, *(cell(name, values[name]) for name in names)) for type, values in metrics.items()
    ]
    return table(("type", *names), rows)


def of_equality(equality: str, difference: float, *, tolerance: float, holds: bool) -> str:
    """One promise, and whether it is kept."""
    mark = "equal" if holds else "DIFFERS"
    return f"{equality:<84} {difference:8.1e}  (≤ {tolerance:.0e})  {mark}"


def of_data(split: str, name: str, report: "SplitReport") -> str:
    """The report on one split of the data."""
    dropped = sum(report.left_out.values())
    kept = f"{report.kept:,} pairs kept, {report.truncated} truncated, {dropped:,} left out"
    lines = [f"{split} ({name}): {kept}"]
    for reason, count in report.left_out.items():
        places = report.places[reason]
        lines.append(f"  left out: {count:,} where {reason}")
        lines.append(f"    {', '.join(places)}{', …' if count > len(places) else ''}")
    lines.append(f"  tokens: {report.tokens:,}, of which the vocabulary has {report.coverage:.2%}")
    if report.vocabulary_from_one_in > 1:
        lines.append(f"    it is learned from one line in {report.vocabulary_from_one_in:,}")
    lines.append(f"  duplicates: {report.duplicates:,} pairs repeat an earlier one")
    if split != "train":
        lines.append(
            f"  overlap: {report.in_train:,} pairs and {report.sources_in_train:,} sources are in "
            f"train too"
        )
        if report.in_train_lines:
            more = ", …" if report.in_train > len(report.in_train_lines) else ""
            lines.append(f"    lines {', '.join(map(str, report.in_train_lines))}{more}")
    for side, lengths in report.lengths.items():
        bars = histogram(lengths)
        most = max((count for _, count in bars), default=1)
        lines.append(f"  tokens of a {side}:")
        lines += [
            f"    {label:>9}  {count:>9,}  {'█' * round(BAR * count / most)}".rstrip()
            for label, count in bars
        ]
    return "\n".join([*lines, ""])


def histogram(lengths: dict[int, int], *, bars: int = 10) -> list[tuple[str, int]]:
    """Texts by length, in up to so many ranges of equal width."""
    if not lengths:
        return []
    width = max(1, -(-max(lengths) // bars))
    counts: dict[int, int] = {}
    for length, count in lengths.items():
        place = max(0, length - 1) // width
        counts[place] = counts.get(place, 0) + count
    return [
        (
            f"{place * width + 1}" if width == 1 else f"{place * width + 1}–{(place + 1) * width}",
            counts.get(place, 0),
        )
        for place in range(max(counts) + 1)
    ]


def of_analysis(analysis: "Analysis") -> str:
    """Where translations are weak."""
    lines = [
        table(("", "where it is weak"), analysis.summary_rows()),
        "",
        table(("words of the source", "sentences", "BLEU", "length ratio"), analysis.length_rows()),
        "",
        "The worst, by chrF:",
    ]
    for chrf, pair in analysis.worst[:WORST_SHOWN]:
        lines.append(f"  {chrf:5.1f}  source     {pair.source}")
        lines.append(f"         reference  {pair.target}")
        lines.append(f"         output     {pair.output}")
    return "\n".join(lines)
