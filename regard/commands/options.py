"""Options that several commands take, each described once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/sort.")]
Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE|FILE.yaml", help="A recipe, or a configuration file.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
DataDirectory = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Directory of the data files.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "-s",
        "--set",
        metavar="KEY=VALUE",
        help="Set a configuration key: -s model.n_heads=8. List them: regard train --keys.",
    ),
]
OtherData = Annotated[
    list[str] | None,
    typer.Option(
        "-s", "--set", metavar="KEY=VALUE", help="Evaluate on other data: -s data.test=more.tsv."
    ),
]
OnBadLine = Annotated[
    Literal["error", "skip"] | None,
    typer.Option(help="What to do with an unusable line: stop and name it, or skip and count it."),
]
OnUnreadable = Annotated[
    Literal["error", "skip"],
    typer.Option(
        "--on-bad-line",
        help="What to do with an unreadable line: stop and name it, or print an empty line.",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"],
    typer.Option(help="Where to compute; auto uses a GPU if there is one."),
]
Quantize = Annotated[
    Literal["int8"] | None,
    typer.Option(help="Compute a Transformer's linear layers in 8 bits: faster on a CPU."),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble",
        metavar="RUN",
        help="Average the probabilities with those of this run too; may be repeated.",
    ),
]


def bad_line_setting(on_bad_line: str | None) -> list[str]:
    """--on-bad-line as a setting of the configuration."""
    return [] if on_bad_line is None else [f"data.on_bad_line={on_bad_line}"]
