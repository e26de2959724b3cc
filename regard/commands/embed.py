"""regard embed: a vector per line, as a file."""

import contextlib
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.commands import options
from regard.commands.opening import open_run
from regard.commands.terminal import one_line, print_json, progress, tell

Pool = Annotated[
    Literal["cls", "mean", "max", "final"] | None,
    typer.Option(
        help="What a vector is made of: the first token's state, the mean or the largest of all, "
        "or the model's own summary. [as the run says, or else mean]",
        show_default=False,
    ),
]
OnLong = Annotated[
    Literal["error", "cut", "windows"],
    typer.Option(
        "--on-long",
        help="What to do with a text that is too long for the model: stop and name it, read its "
        "beginning, or read all of it in parts.",
    ),
]


def embed(
    run: options.RunPath,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="One text per line. [standard input, also -]"),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE.npy|.jsonl", help="Where the vectors go.")
    ] = Path("vectors.npy"),
    pool: Pool = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            help="Divide each vector by its length. [as the run says, or else yes]",
            show_default=False,
        ),
    ] = None,
    on_long: OnLong = "error",
    on_bad_line: Annotated[
        Literal["error", "skip"],
        typer.Option(
            "--on-bad-line",
            help="What to do with an unreadable line: stop and name it, or give it zeros.",
        ),
    ] = "error",
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Write one vector per line of a file, in order; an empty line has zeros.

    For example: regard embed runs/minilm lines.txt --out lines.npy
    """
    from regard.commands.input_lines import arriving, input_file
    from regard.data.lines import count_lines
    from regard.search.vector_files import embed_to_file, refuse_ending

    refuse_ending(out)
    opened = open_run(run, device=device, quantize=quantize)
    embedder = opened.embedder(pool=pool, normalize=normalize, on_long=on_long)
    began = time.perf_counter()
    file = input_file(file)
    whole = file is not None and file.is_file()
    with progress(count_lines(file)) if file and whole else contextlib.nullcontext():
        done = embed_to_file(embedder, arriving(file), out, skip=on_bad_line == "skip")
    seconds = time.perf_counter() - began
    for refusal in done.refusals:
        tell(refusal.sentence)
    for sentence in done.counts.warnings():
        tell(sentence)
    if done.long:
        how = {"cut": "only their beginning was read", "windows": "they were read in parts"}
        tell(f"{done.long:,} texts are too long for the model: {how.get(on_long, '')}.")
    empty = f", {done.empty:,} of them zeros" if done.empty else ""
    tell(f"{done.lines:,} vectors of {embedder.width} numbers{empty}: {out}")
    if as_json:
        print_json(
            {
                "vectors": done.lines,
                "width": embedder.width,
                "empty": done.empty,
                "long": done.long,
                "seconds": round(seconds, 3),
                "out": one_line(str(out)),
            }
        )
