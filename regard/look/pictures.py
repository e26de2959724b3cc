"""The pictures in a run directory: training curves, attention of every head, gates over time."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files are written without a screen

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Patch

from regard.config import METRICS
from regard.nn import Trace
from regard.runs.run import Run
from regard.system.files import writing

INK, SOFT, TRAIN, VALID = "#22223b", "#9a9aab", "#8ecae6", "#e76f51"
MASKED = "#e4e4ea"
WEIGHT = LinearSegmentedColormap.from_list("weight", ["white", "#c9b7e8", "#7b4fb5", "#2d1056"])
STATE = LinearSegmentedColormap.from_list("state", ["#2a6f97", "white", "#c1440e"])
SECOND = ("nsp_accuracy", "sop_accuracy")
"""The metrics that are drawn beside another of the same panel, which has the plain label."""
SIGNED = ("hidden", "cell_state", "cell", "new")
"""The records of a recurrent cell that may be negative."""
LARGEST = 6000
"""The most pixels along one side of a picture."""
MOST_SQUARES = 168
"""The most attention maps in one picture: those of 6 + 6 layers with 8 heads fit."""
STYLE: Any = {
    "text.parse_math": False,
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
    """Save curves.png and, of one example, attention.png and gates.png if the model has them."""
    example = run.task.example(_drawable)
    with plt.rc_context(STYLE):
        paths = [_save(curves(run.metrics()), run.path / "curves.png")]
        trace = Trace() if example is None else run.trace(example)
        if trace.attention():
            paths.append(_save(attention(trace, shown_parts(trace)), run.path / "attention.png"))
        if recurrent_paths(trace):
            paths.append(_save(gates(trace), run.path / "gates.png"))
    return paths


def _drawable(text: str) -> bool:
    """Whether the font has a glyph for every character."""
    font = get_font(findfont(FontProperties(family=[STYLE["font.family"]])))
    return all(character.isspace() or font.get_char_index(ord(character)) for character in text)


def curves(metrics: list[dict[str, Any]]) -> Figure:
    """Loss, accuracy and learning rate by step, of training and validation."""
    figure, (loss, accuracy, rate) = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    metrics = [line for line in metrics if "averaged" not in line]
    steps = [line["step"] for line in metrics]
    loss.set_title(METRICS["loss"].title)
    loss.set_yscale("log")
    accuracy.set_title("accuracy")
    rate.set_title("learning rate")
    for metric in METRICS.values():
        axes = {"loss": loss, "accuracy": accuracy, None: None}[metric.panel]
        for part in ("train", "valid"):
            values = [line[part].get(metric.name) for line in metrics]
            if axes is None or not values or any(value is None for value in values):
                continue
            shown = [1 - value if metric.complement else value for value in values]
            colour = INK if metric.generated else TRAIN if part == "train" else VALID
            of_pairs = metric.name in SECOND
            label = f"{part}, {metric.title}" if metric.generated or of_pairs else part
            style = "--" if of_pairs else "-"
            axes.plot(steps, shown, style, color=colour, marker="o", markersize=3, label=label)
            axes.legend(frameon=False)
    rate.plot(steps, [line["lr"] for line in metrics], color=INK, marker="o", markersize=3)
    for axes in (loss, accuracy, rate):
        axes.set_xlabel("step")
        axes.grid(axis="y", color=MASKED)
    return figure


def shown_parts(trace: Trace) -> list[str]:
    """The parts to draw: all that attend, or as many as fit, from the first to the last."""
    attending = trace.attention()
    paths = list(attending)
    most = max(2, MOST_SQUARES // (1 + attending[paths[0]].size(1)))
    if len(paths) <= most:
        return paths
    return [paths[round(number * (len(paths) - 1) / (most - 1))] for number in range(most)]


def attention(trace: Trace, paths: Sequence[str] | None = None) -> Figure:
    """One square per head, and one for their mean: tokens that attend (down) to tokens (across).

    paths: which parts to show; all that attend if not given. Where a decoder reads the source, a
    frame marks the cells in which the generated token is the token that is read.
    """
    attending = trace.attention()
    parts = [(path, attending[path]) for path in paths or attending]
    heads = parts[0][1].size(1)
    longest = max(len(tokens) for tokens in trace.tokens.values())
    side = 0.17 * longest + 0.9
    figure, grid = plt.subplots(
        len(parts),
        heads + 1,
        figsize=(side * (heads + 1) + 0.8, (side + 0.35) * len(parts) + 0.8),
        layout="constrained",
        squeeze=False,
        sharey="row",
    )
    for row, (path, weights) in zip(grid, parts, strict=True):
        down, across = _axes_of(path, trace)
        squares = {f"head {head + 1}": weights[0, head] for head in range(heads)}
        squares["mean of heads"] = weights[0].mean(dim=0)
        for axes, (title, square) in zip(row, squares.items(), strict=True):
            _square(axes, square.numpy(force=True), _mask(trace, path), down, across)
            axes.set_title(title, fontsize=8, color=SOFT)
            if path.endswith("cross_attention"):
                _frame_equal_tokens(axes, down, across)
        row[0].invert_yaxis()  # the first token on top
        row[0].set_ylabel("\n".join(path.rsplit(".", 1)), fontsize=9)
    title = f"{' '.join(trace.tokens['source'])}  →  {' '.join(trace.tokens['output'])}"
    if len(parts) < len(attending):
        title += f"\n{len(parts)} of {len(attending)} parts"
    figure.suptitle(title, fontsize=11)
    figure.legend(
        handles=[
            Patch(facecolor=WEIGHT(1.0), label="weight 1"),
            Patch(facecolor=WEIGHT(0.5), label="½"),
            Patch(facecolor="white", edgecolor=MASKED, label="0"),
            Patch(facecolor=MASKED, hatch="////", edgecolor="white", label="masked"),
            Patch(facecolor="white", edgecolor=VALID, label="the same token"),
        ],
        loc="outside lower right",
        ncols=5,
        frameon=False,
        fontsize=8,
    )
    return figure


def recurrent_paths(trace: Trace) -> list[str]:
    """The parts that carry a state through time: one per layer and direction."""
    return [path for path in trace if path.endswith((".forward", ".backward"))]


def gates(trace: Trace) -> Figure:
    """The values of every gate and state at every step: one row per layer, one square per gate.

    Across: the tokens, in the order of the text. Down: the units. Gates are between 0 (closed)
    and 1 (open); what may be negative, such as the state, is between −1 and 1.
    """
    paths = recurrent_paths(trace)
    names = list(trace[paths[0]])
    longest = max(len(tokens) for tokens in trace.tokens.values())
    figure, grid = plt.subplots(
        len(paths),
        len(names),
        figsize=((0.16 * longest + 0.9) * len(names) + 1.6, 2.6 * len(paths) + 0.6),
        layout="constrained",
        squeeze=False,
    )
    for row, path in zip(grid, paths, strict=True):
        tokens = trace.tokens["target" if path.startswith("decoder") else "source"]
        for axes, name in zip(row, names, strict=True):
            values = trace[path][name][0].numpy(force=True).T  # D L
            signed = name in SIGNED
            mesh = axes.pcolormesh(
                values, cmap=STATE if signed else WEIGHT, vmin=-1 if signed else 0, vmax=1
            )
            axes.set_title(name, fontsize=9)
            axes.set_xticks(np.arange(len(tokens)) + 0.5, tokens, fontsize=6)
            axes.set_yticks([])
            axes.tick_params(length=0)
            figure.colorbar(mesh, ax=axes, shrink=0.6).ax.tick_params(labelsize=6)
        row[0].set_ylabel("\n".join(path.rsplit(".", 1)), fontsize=9)
    figure.suptitle(f"{' '.join(trace.tokens['source'])}  →  {' '.join(trace.tokens['output'])}")
    return figure


def _axes_of(path: str, trace: Trace) -> tuple[list[str], list[str]]:
    """The tokens down and across: a decoder's row is named by the token that it produces."""
    *_, rows, columns = trace.axes[path]["weights"]
    return trace.tokens["output" if rows == "target" else rows], trace.tokens[columns]


def _mask(trace: Trace, path: str) -> np.ndarray:
    record = trace[path]
    shape = record["weights"].shape
    if "mask" not in record:
        return np.ones(shape[-2:], dtype=bool)
    return record["mask"].broadcast_to(shape)[0, 0].numpy(force=True)


def _square(
    axes: Axes, weights: np.ndarray, mask: np.ndarray, down: list[str], across: list[str]
) -> None:
    axes.add_collection(
        PolyCollection(_cells(~mask), facecolor=MASKED, edgecolor="white", hatch="////", lw=0)
    )
    shown = np.ma.array(weights, mask=~mask)
    axes.pcolormesh(shown, cmap=WEIGHT, vmin=0, vmax=1, edgecolors=MASKED, linewidth=0.4)
    axes.set_aspect("equal")
    axes.set_xticks(np.arange(len(across)) + 0.5, across, fontsize=6)
    axes.set_yticks(np.arange(len(down)) + 0.5, down, fontsize=6)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _frame_equal_tokens(axes: Axes, down: list[str], across: list[str]) -> None:
    equal = np.array(down)[:, None] == np.array(across)
    axes.add_collection(PolyCollection(_cells(equal), facecolor="none", edgecolor=VALID, lw=1.2))


def _cells(chosen: np.ndarray) -> list[np.ndarray]:
    """The corners of each chosen cell; one collection is drawn faster than many patches."""
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    return list(np.argwhere(chosen)[:, None, ::-1] + corners)  # 4 2 each


def _save(figure: Figure, path: Path) -> Path:
    with writing(path) as aside:
        dpi = min(150, LARGEST / max(figure.get_size_inches()))
        with warnings.catch_warnings():  # a box replaces a character without a glyph
            warnings.filterwarnings("ignore", message="Glyph")
            figure.savefig(aside, dpi=dpi, format="png")
    plt.close(figure)
    return path
