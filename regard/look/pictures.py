"""The pictures in a run directory: training curves, and the attention of every head."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no screen is needed to write a file

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from regard.nn import Trace
from regard.run import Run
from regard.training.files import writing

INK, SOFT, TRAIN, VALID = "#22223b", "#9a9aab", "#8ecae6", "#e76f51"
MASKED = "#e4e4ea"
STYLE: Any = {
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(run: Run) -> list[Path]:
    """curves.png and attention.png of a run; their paths."""
    example = run.task.sources["test"].pairs()[1][0]
    with plt.rc_context(STYLE):
        return [
            _save(curves(run.metrics()), run.path / "curves.png"),
            _save(attention(run.trace(example)), run.path / "attention.png"),
        ]


def curves(metrics: list[dict[str, Any]]) -> Figure:
    """Loss, accuracy and learning rate against the step, training beside validation."""
    figure, (loss, accuracy, rate) = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    steps = [line["step"] for line in metrics]
    for axes, name, title in (
        (loss, "loss", "loss a token"),
        (accuracy, "token_accuracy", "accuracy"),
    ):
        for part, colour in (("train", TRAIN), ("valid", VALID)):
            values = [line[part][name] for line in metrics]
            axes.plot(steps, values, color=colour, marker="o", markersize=3, label=part)
        axes.set_title(title)
        axes.legend(frameon=False)
    loss.set_yscale("log")
    decoded = [line["valid"].get("exact_match") for line in metrics]
    if all(value is not None for value in decoded):
        accuracy.plot(
            steps, decoded, color=INK, marker="o", markersize=3, label="valid, whole line"
        )
        accuracy.legend(frameon=False)
    rate.plot(steps, [line["lr"] for line in metrics], color=INK, marker="o", markersize=3)
    rate.set_title("learning rate")
    for axes in (loss, accuracy, rate):
        axes.set_xlabel("step")
        axes.grid(axis="y", color=MASKED)
    return figure


def attention(trace: Trace) -> Figure:
    """A square a head: who (down) looks at whom (across); grey may not be looked at."""
    parts = list(trace.attention().items())
    heads = parts[0][1].size(1)
    longest = max(len(tokens) for tokens in trace.tokens.values())
    side = 0.17 * longest + 0.9
    figure, grid = plt.subplots(
        len(parts),
        heads,
        figsize=(side * heads + 0.8, (side + 0.35) * len(parts) + 0.8),
        layout="constrained",
        squeeze=False,
    )
    for row, (path, weights) in zip(grid, parts, strict=True):
        down, across = _axes_of(path, trace)
        for head, axes in enumerate(row):
            _square(axes, weights[0, head].numpy(force=True), _mask(trace, path), down, across)
            axes.set_title(f"head {head + 1}", fontsize=8, color=SOFT)
        row[0].set_ylabel(path.replace(".", "\n", 2).replace("_", " "), fontsize=9)
    figure.suptitle(
        f"{' '.join(trace.tokens['source'])}  →  {' '.join(trace.tokens['output'])}", fontsize=11
    )
    figure.legend(
        handles=[
            Patch(facecolor="#3b0f70", label="attends"),
            Patch(facecolor="white", edgecolor=SOFT, label="may, does not"),
            Patch(facecolor=MASKED, hatch="////", edgecolor="white", label="masked"),
        ],
        loc="outside lower right",
        ncols=3,
        frameon=False,
        fontsize=8,
    )
    return figure


def _axes_of(path: str, trace: Trace) -> tuple[list[str], list[str]]:
    """The tokens down and across: a decoder's row is named by the token that it produces."""
    if path.startswith("encoder"):
        return trace.tokens["source"], trace.tokens["source"]
    read = trace.tokens["source"] if path.endswith("cross_attention") else trace.tokens["target"]
    return trace.tokens["output"], read


def _mask(trace: Trace, path: str) -> np.ndarray:
    record = trace[path]
    shape = record["weights"].shape
    if "mask" not in record:
        return np.ones(shape[-2:], dtype=bool)
    return record["mask"].broadcast_to(shape)[0, 0].numpy(force=True)


def _square(
    axes: Axes, weights: np.ndarray, mask: np.ndarray, down: list[str], across: list[str]
) -> None:
    axes.set_facecolor(MASKED)
    for row, column in zip(*np.nonzero(~mask), strict=True):
        axes.add_patch(
            Rectangle(
                (column - 0.5, row - 0.5),
                1,
                1,
                facecolor=MASKED,
                edgecolor="white",
                hatch="////",
                lw=0,
            )
        )
    axes.imshow(np.ma.array(weights, mask=~mask), cmap="magma_r", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(across)), across, fontsize=6)
    axes.set_yticks(range(len(down)), down, fontsize=6)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _save(figure: Figure, path: Path) -> Path:
    with writing(path) as aside:
        figure.savefig(aside, dpi=150, format="png")
    plt.close(figure)
    return path
