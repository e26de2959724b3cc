"""Options that several commands take, each described once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.data.lines import broken
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.config import Config


def utf8(value: str | Path | None) -> str | Path | None:
    """Refuse a text that is not UTF-8: nothing is generated after it, or written under its name."""
    if value is not None and broken(str(value)):
        raise typer.BadParameter(f"{value} is not UTF-8 text.")
    return value


def utf8_all(values: list[str] | None) -> list[str] | None:
    """Refuse any text that is not UTF-8."""
    for value in values or ():
        utf8(value)
    return values


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
Prefix = Annotated[str, typer.Option(help="Text that every output begins with.", callback=utf8)]
Stop = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="End an output before this text; may be repeated."),
]
Choice = Annotated[
    list[str] | None,
    typer.Option(
        "--choice", metavar="TEXT", help="Allow only outputs given this way; may be repeated."
    ),
]
Regex = Annotated[
    str,
    typer.Option(
        metavar="PATTERN",
        help="Allow only outputs that match this regular expression, all of it.",
        callback=utf8,
    ),
]
Draft = Annotated[
    Path | None,
    typer.Option(
        "--draft",
        metavar="RUN",
        help="A smaller run with the same vocabulary, which guesses tokens ahead: faster.",
    ),
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


def check_directory(data: Path | None) -> None:
    """Refuse a --data that is no directory."""
    if data is not None and not data.is_dir():
        fault = "is not a directory" if data.exists() else "does not exist"
        raise UserError(
            f"--data {str(data)!r} {fault}: name the directory that holds the data files."
        )


def set_directory(config: "Config", data: Path | None) -> None:
    """Put --data into a configuration, which must have files to be found there."""
    if data is None:
        return
    from regard.config import refuse_idle

    check_directory(data)
    config.data.directory = str(data.resolve())
    refuse_idle(config, ["data.directory"], where="--data")
