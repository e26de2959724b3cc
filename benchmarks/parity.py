"""The parity recipe, trained to the end: every cell by both paths, and without each trick.

python -m benchmarks.parity                          (about ten minutes)
python -m benchmarks.parity --picture parity.png     draws the learning curves as well
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from benchmarks.interleave import print_table
from regard import config
from regard.runs.run import load
from regard.runs.trainer import train

CELLS = [(kind, cell) for kind in ("rnn", "gru", "lstm") for cell in ("fast", "reference")]

SCRIPT = ["data.epoch_size=2000", "data.fresh=false", "data.curriculum=0"]
UNIFORM = ["model.recurrent_init=uniform"]

VARIANTS: dict[str, list[str]] = {
    "the recipe": [],
    "without the curriculum": ["data.curriculum=0"],
    "2,000 a stage, none fresh": [*SCRIPT[:2], "train.steps=2000"],
    "uniform recurrent weights": UNIFORM,
    "none of the three": [*SCRIPT, *UNIFORM, "train.steps=2000"],
    "the script: none, and 3 epochs": [*SCRIPT, *UNIFORM, "train.epochs=3", "train.eval_every=10"],
}


def measure(settings: list[str]) -> dict[str, Any]:
    """Train, and measure on unseen sequences of the training lengths and of 200 numbers."""
    with tempfile.TemporaryDirectory() as folder:
        made, _ = train(config.load("parity", settings), Path(folder) / "run")
        long = load(Path(folder) / "run", settings=["data.test=parity-long"])
        curve = [(line["step"], line["valid"]["accuracy"]) for line in made.metrics()]
        return {
            "short": made.evaluate("test")["metrics"]["accuracy"],
            "long": long.evaluate("test")["metrics"]["accuracy"],
            "solved": next((step for step, accuracy in curve if accuracy >= 0.999), None),
            "seconds": made.metrics()[-1]["seconds"],
            "curve": curve,
        }


def row(result: dict[str, Any]) -> list[str]:
    solved = "never" if result["solved"] is None else f"{result['solved']:,}"
    return [f"{result['short']:.4f}", f"{result['long']:.4f}", solved, f"{result['seconds']:.0f}"]


HEAD = ["accuracy, 4 to 20", "accuracy, 200", "solved after updates", "seconds of training"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    rows = []
    for kind, cell in CELLS:
        # The reference path is slower and computes the same: one seed is enough.
        for seed in options.seeds if cell == "fast" else options.seeds[:1]:
            result = measure([f"model.kind={kind}", f"model.cell={cell}", f"seed={seed}"])
            rows.append([kind, cell, str(seed), *row(result)])
            print(*rows[-1], flush=True)
    print_table(["cell", "path", "seed", *HEAD], rows)
    rows, curves = [], {}
    for kind in ("rnn", "gru", "lstm"):
        for name, settings in VARIANTS.items():
            result = measure([f"model.kind={kind}", *settings])
            rows.append([name, kind, *row(result)])
            curves[kind, name] = result["curve"]
            print(*rows[-1], flush=True)
    print_table(["training", "cell", *HEAD], rows)
    if options.picture is not None:
        draw(curves, options.picture)


def draw(curves: dict[tuple[str, str], list[tuple[int, float]]], path: Path) -> None:
    """Draw the accuracy on valid by update, one panel per cell."""
    colours = ["#2d1056", "#e76f51", "#2a9d8f", "#8ecae6", "#9a9aab", "#22223b"]
    figure, panels = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained", sharey=True)
    for axes, kind in zip(panels, ("rnn", "gru", "lstm"), strict=True):
        for (name, colour), wide in zip(
            zip(VARIANTS, colours, strict=True), [2.6, *[1.4] * 5], strict=True
        ):
            steps, accuracies = zip(*curves[kind, name], strict=True)
            axes.plot(steps, accuracies, color=colour, lw=wide, label=name)
        axes.axhline(0.5, color="#e4e4ea", zorder=0)
        axes.set_title(kind)
        axes.set_xlabel("updates")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy on unseen sequences")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
