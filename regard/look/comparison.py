"""What comparisons of trainings come to: tables, curves and a report in one file without links."""

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.config import METRICS
from regard.config.metrics import shown
from regard.look.pictures import INK, MASKED, SOFT, STYLE, TRAIN, VALID
from regard.look.report import PAGE, html_image, html_table, png_of
from regard.studies.fine_tuning import METHODS, METRIC, Summary
from regard.studies.training import Trained
from regard.system.files import write_text, writing

COLOURS = (VALID, "#2a6f97", "#7b4fb5", "#5a8f29", SOFT, INK, TRAIN, "#b5838d")
MARKS = "osD^vPX*"


def sweep_header(metric: str) -> tuple[str, ...]:
    return ("", metric, "minutes", "parameters")


def sweep_rows(results: Sequence[Trained]) -> list[tuple[str, ...]]:
    """One row for each training; the best value has a star."""
    gain = METRICS[results[0].metric].gain
    best = max(gain(result.value) for result in results)
    return [
        (
            result.name,
            shown(result.metric, result.value) + (" *" if gain(result.value) == best else ""),
            f"{result.minutes:.1f}",
            f"{result.parameters:,}",
        )
        for result in results
    ]


def sweep_curves(results: Sequence[Trained]) -> Figure:
    """The metric on the validation data by step, one line for each training."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
        for number, result in enumerate(results):
            if result.curve:
                steps, values = zip(*result.curve, strict=True)
                axes.plot(steps, values, label=result.name, **_look(number))
        axes.set_xlabel("step")
        axes.set_ylabel(f"{METRICS[results[0].metric].title}, validation data")
        _finish(axes)
    return figure


def label_header(results: Sequence[Summary]) -> tuple[str, ...]:
    return ("labelled examples", *(_size(labels) for labels in _sizes(results)))


def label_rows(results: Sequence[Summary], *, minutes: bool = False) -> list[tuple[str, ...]]:
    """A row for each method, a column for each number of labels: mean ± spread over seeds.

    minutes: of a training, in place of the metric.
    """
    cells = {(one.method, one.labels): one for one in results}
    return [
        (
            METHODS[method].title,
            *(_cell(cells.get((method, labels)), minutes=minutes) for labels in _sizes(results)),
        )
        for method in dict.fromkeys(one.method for one in results)
    ]


def label_curves(results: Sequence[Summary]) -> Figure:
    """The metric against the number of labels, on a logarithmic axis; bars are the spread."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
        for number, method in enumerate(dict.fromkeys(one.method for one in results)):
            chosen = [one for one in results if one.method == method]
            axes.errorbar(
                [one.labels for one in chosen],
                [one.mean for one in chosen],
                yerr=[one.spread for one in chosen],
                label=METHODS[method].title,
                capsize=3,
                **_look(number),
            )
        axes.set_xscale("log")
        sizes = _sizes(results)
        axes.set_xticks(sizes, [_size(labels) for labels in sizes])
        axes.minorticks_off()
        axes.set_xlabel("labelled examples")
        axes.set_ylabel(METRICS[METRIC].title)
        _finish(axes)
    return figure


def write_comparison(
    paths: Iterable[Path],
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]],
    figure: Figure,
    *,
    picture: Path,
    title: str,
) -> None:
    """The picture by itself, and in reports with the tables: (heading, header, rows) each."""
    png = png_of(figure)
    with writing(picture) as aside:
        aside.write_bytes(png)
    parts = [html_image(png)]
    for heading, header, rows in tables:
        parts += [f"<h2>{html.escape(heading)}</h2>", html_table(header, rows)]
    for path in paths:
        write_text(path, PAGE.format(title=html.escape(title), body="\n".join(parts)))


def _look(number: int) -> Any:
    """The colour and the mark of a line."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKS[number % len(MARKS)],
        "markersize": 5,
        "linewidth": 1.6,
    }


def _finish(axes: Axes) -> None:
    axes.grid(axis="y", color=MASKED)
    axes.legend(frameon=False)


def _sizes(results: Sequence[Summary]) -> list[int]:
    return sorted({one.labels for one in results})


def _size(labels: int) -> str:
    return f"{labels:,}"


def _cell(summary: Summary | None, *, minutes: bool) -> str:
    if summary is None:
        return "–"
    if minutes:
        return f"{summary.minutes:.1f}"
    spread = f" ± {summary.spread:.3f}" if len(summary.values) > 1 else ""
    return f"{summary.mean:.3f}{spread}"
