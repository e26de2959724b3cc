"""regard predict: one line in, one line out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import options, tables
from regard.commands.decoding_options import given_options
from regard.commands.opening import open_ensemble, open_run
from regard.commands.terminal import print_at_once, print_json, progress_of, tell
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.tasks import Prediction

MOST_NAMED = 5
"""At most this many unreadable lines are named; all are counted."""


def predict(
    run: options.RunPath,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="One input per line. [standard input, also -]"),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Text that every output begins with.")] = "",
    align: Annotated[
        bool,
        typer.Option(
            "--align",
            help="Print word alignments after a tab, as 0-0 1-2 (of characters in zh and ja).",
        ),
    ] = False,
    on_bad_line: options.OnUnreadable = "error",
    ensemble: options.Ensemble = None,
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Print one output per input line, in order. Printed as soon as it is ready.

    For example: echo "3 1 2" | regard predict runs/sort
    """
    from regard.commands.input_lines import arriving

    decoding = given_options()
    opened = open_ensemble(
        open_run(run, device=device, quantize=quantize), ensemble, device=device, quantize=quantize
    )
    opened.decode_options(decoding)  # a wrong option is refused before anything is read
    file = _input(file)
    done = empty = unreadable = 0
    in_json: list[dict[str, Any]] = []

    def refused(sentence: str) -> None:
        nonlocal unreadable
        unreadable += 1
        if unreadable <= MOST_NAMED:
            tell(sentence)

    with progress_of(file):
        for name, lines in arriving(file):
            predictions = opened.predictions(
                lines,
                decoding=decoding,
                name=name,
                first=done,
                prefix=prefix,
                aligned=align,
                refused=refused if on_bad_line == "skip" else None,
            )
            done += len(predictions)
            empty += sum(not prediction.outputs for prediction in predictions)
            if as_json:
                in_json += map(_as_json, predictions)
            else:
                print_at_once(map(tables.of_prediction, predictions))
    if as_json:
        print_json({"predictions": in_json})
    for sentence in opened.notices():
        tell(sentence)
    tell(
        f"{done:,} line{'s' if done != 1 else ''}"
        + (f", {empty:,} of them empty" if empty else "")
        + (f", {unreadable:,} of these because they cannot be read" if unreadable else "")
    )


def _input(file: Path | None) -> Path | None:
    """The file to read; None for standard input, with a word to the person who types there."""
    if file not in (None, Path("-")):
        return file
    if sys.stdin is None:
        raise UserError("standard input is closed; give a FILE.")
    if sys.stdin.isatty():
        tell("Type one input per line; Ctrl-D ends.")
    return None


def _as_json(prediction: "Prediction") -> dict[str, Any]:
    values = {name: value for name, value in vars(prediction).items() if value is not None}
    return values | {"input": prediction.input.encode(errors="replace").decode()}  # broken UTF-8
