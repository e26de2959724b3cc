"""regard export: a model in the format of another engine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.commands import options
from regard.commands.opening import open_run
from regard.commands.terminal import tell


def export(
    run: options.RunPath,
    to: Annotated[
        Literal["hf", "ctranslate2", "onnx"],
        typer.Option(help="Hugging Face's layout, or the format of another engine."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory to create.", callback=options.utf8)
    ],
) -> None:
    """Export a model for another engine.

    For example: regard export runs/multi30k --to ctranslate2 --out multi30k-ct2
    """
    open_run(run).export(to, out)
    tell(f"{out} holds the model and its tokenizers.")
