"""regard import: a model of another library as a run."""

from pathlib import Path
from typing import Annotated

import typer

from regard.commands import options
from regard.commands.terminal import tell


def import_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PATH|NAME",
            help="A Hugging Face folder, a GGUF file, or a model of a package: minilm, smollm2, "
            "g2p-en.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="RUN", help="Run directory to create.", callback=options.utf8)
    ],
) -> None:
    """Open a pretrained model as a run.

    For example: regard import smollm2 --out runs/smollm2
    """
    from regard.runs.importing import import_run

    imported = import_run(source, out)
    for sentence in imported.notes:
        tell(sentence)
    weights = imported.weights.values()
    count = sum(weight.numel() for weight in weights)
    size = sum(weight.numel() * weight.element_size() for weight in weights)
    kind = imported.config.model.kind
    tell(f"{out} holds the model: {kind}, {count:,} weights in float32, {size / 1e6:,.0f} MB.")
