"""regard predict: one line in, one line out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands import options
from regard.commands.decoding_options import given_options
from regard.commands.opening import open_ensemble, open_run, open_with_draft
from regard.commands.terminal import print_at_once, print_json, progress_of, tell

MOST_NAMED = 5
"""At most this many unreadable lines are named; all are counted."""


def predict(
    run: options.RunPath,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="One input per line. [standard input, also -]"),
    ] = None,
    prefix: options.Prefix = "",
    stop: options.Stop = None,
    choice: options.Choice = None,
    regex: options.Regex = "",
    draft: options.Draft = None,
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
    """Print one output per input line, in order, each as soon as it is ready.

    For example: echo "3 1 2" | regard predict runs/sort
    """
    from regard.commands.input_lines import arriving, input_file
    from regard.tasks import Counts

    decoding = given_options()
    opened = open_ensemble(
        open_run(run, device=device, quantize=quantize), ensemble, device=device, quantize=quantize
    )
    opened = open_with_draft(opened, draft, device=device)
    opened.decode_options(decoding)  # a wrong option is refused before anything is read
    file = input_file(file)
    done = empty = unreadable = 0
    counts = Counts()
    in_json: list[dict[str, Any]] = []
    with progress_of(file):
        for name, lines in arriving(file):
            answer = opened.answer(
                lines,
                decoding=decoding,
                name=name,
                first=done,
                prefix=prefix,
                stop=stop or (),
                choices=choice or (),
                regex=regex,
                aligned=align,
                on_bad_line=on_bad_line,
            )
            for refusal in answer.refusals[: max(0, MOST_NAMED - unreadable)]:
                tell(refusal.sentence)
            unreadable += len(answer.refusals)
            done += len(answer.predictions)
            empty += sum(not prediction.outputs for prediction in answer.predictions)
            counts += answer.counts
            if as_json:
                in_json += [prediction.as_json() for prediction in answer.predictions]
            else:
                print_at_once(prediction.text for prediction in answer.predictions)
    if as_json:
        print_json({"predictions": in_json})
    for sentence in counts.warnings():
        tell(sentence)
    tell(
        f"{done:,} line{'s' if done != 1 else ''}"
        + (f", {empty:,} of them empty" if empty else "")
        + (f", {unreadable:,} of these because they cannot be read" if unreadable else "")
    )
