"""report.html: metrics, weaknesses and training curves of a run, in one file without links."""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from regard.config.metrics import shown
from regard.look.pictures import INK, SOFT, STYLE, VALID
from regard.metrics.analysis import Analysis
from regard.runs.run import Run
from regard.system.files import write_text

PICTURES = ("curves.png", "attention.png", "gates.png")

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #22223b; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; }}
td, th {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #e4e4ea; overflow-wrap: anywhere; }}
img {{ max-width: 100%; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def write_report(run: Run, result: dict[str, Any], analysis: Analysis | None = None) -> Path:
    """Write the report of a run: the metrics of an evaluation, the analysis, and pictures."""
    parts = [
        f"<p>{result['examples']:,} examples of {html.escape(result['split'])}.</p>",
        html_table(
            ("metric", "value"), ((name, shown(name, v)) for name, v in result["metrics"].items())
        ),
    ]
    if analysis is not None:
        parts += _analysis(analysis)
    for name in PICTURES:
        if (run.path / name).is_file():
            parts += [
                f"<h2>{name.removesuffix('.png')}</h2>",
                html_image((run.path / name).read_bytes()),
            ]
    path = run.path / "report.html"
    more = f", together with {run.members - 1} more" if run.members > 1 else ""
    title = html.escape(f"{run.path.name}: {run.config.task}, {run.config.model.kind}{more}")
    write_text(path, PAGE.format(title=title, body="\n".join(parts)))
    return path


def _analysis(analysis: Analysis) -> list[str]:
    worst = [
        (f"{chrf:.1f}", pair.source, pair.target, pair.output) for chrf, pair in analysis.worst
    ]
    return [
        "<h2>Where it is weak</h2>",
        html_table(("", ""), analysis.summary_rows()),
        html_image(png_of(bars_by_length(analysis))),
        html_table(
            ("words of the source", "sentences", "BLEU", "length ratio"), analysis.length_rows()
        ),
        "<h2>The worst, by chrF</h2>",
        html_table(("chrF", "source", "reference", "output"), worst),
    ]


def bars_by_length(analysis: Analysis) -> Figure:
    """BLEU and the length ratio, by the length of the source."""
    with plt.rc_context(STYLE):
        figure, (bleu, ratios) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
        labels = [group.words for group in analysis.by_length]
        positions = range(len(labels))
        bleu.bar(positions, [group.bleu for group in analysis.by_length], color=VALID)
        bleu.set_title("BLEU")
        ratios.bar(positions, [group.length_ratio for group in analysis.by_length], color=SOFT)
        ratios.axhline(1, color=INK, linewidth=0.8)
        ratios.set_title("words generated per word of the reference")
        for axes in (bleu, ratios):
            axes.set_xticks(positions, labels)
            axes.set_xlabel("words of the source")
    return figure


def png_of(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    plt.close(figure)
    return buffer.getvalue()


def html_image(png: bytes) -> str:
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
