"""A report on decoding strategies: the table, the plot of probabilities, and every text."""

import html
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from regard.look.pictures import STYLE
from regard.look.report import PAGE, html_image, html_table, png_of
from regard.studies.strategies import Measured
from regard.system.files import write_text

PLOTTED = ("human text", "beam 4", "greedy", "top-p 0.9", "sampling")
"""Whose probabilities are drawn, as far as they are there."""
HEADER = (
    "strategy",
    "log p",
    "perplexity",
    "distinct-1",
    "distinct-2",
    "self-BLEU",
    "repeated 4-grams",
    "mass kept",
    "ms/token",
)


def rows(results: Sequence[Measured]) -> list[tuple[str, ...]]:
    """The numbers of each strategy, as cells of a table."""
    return [
        (
            one.name,
            f"{one.log_probability:.1f}",
            f"{one.perplexity:.2f}" if one.perplexity < 1e4 else f"{one.perplexity:.1e}",
            f"{one.distinct_1:.2f}",
            f"{one.distinct_2:.2f}",
            "–" if one.self_bleu is None else f"{one.self_bleu:.1f}",
            f"{one.repeated_4grams:.1%}",
            "–" if one.mass_kept is None else f"{one.mass_kept:.1%}",
            "–" if one.seconds_per_token is None else f"{1e3 * one.seconds_per_token:.1f}",
        )
        for one in results
    ]


def plot_probabilities(results: Sequence[Measured]) -> Figure:
    """The probability of each token of one text, by its place (Holtzman et al. 2020, fig. 2)."""
    chosen = [one for name in PLOTTED for one in results if one.name == name and one.probabilities]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
        for one in chosen:
            axes.plot(one.probabilities[0], label=one.name, linewidth=1.2)
        axes.set_xlabel("token")
        axes.set_ylabel("probability")
        axes.set_ylim(0, 1.02)
        axes.legend()
    return figure


def write_comparison(path: Path, results: Sequence[Measured], *, title: str) -> None:
    """One file without links: it opens offline."""
    texts = [(one.name, text) for one in results for text in one.texts]
    parts = [
        html_table(HEADER, rows(results)),
        "<h2>The probability of each token</h2>",
        html_image(png_of(plot_probabilities(results))),
        "<h2>Texts</h2>",
        html_table(("strategy", "text"), texts),
    ]
    write_text(path, PAGE.format(title=html.escape(title), body="\n".join(parts)))
