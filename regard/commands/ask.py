"""regard ask: a question answered from the lines of a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands import options
from regard.commands.decoding_options import given_options
from regard.commands.opening import open_run
from regard.commands.search import Corpus, Place, Rebuild
from regard.commands.terminal import (
    plain_text,
    print_at_once,
    print_json,
    print_pieces,
    progress,
    tell,
)
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.runs.run import Run


def ask(
    corpus: Corpus,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What to ask.", callback=options.utf8)
    ],
    encoder: Annotated[
        Path, typer.Option(metavar="RUN", help="The run whose vectors find the lines.")
    ] = Path("runs/minilm"),
    generator: Annotated[
        Path, typer.Option(metavar="RUN", help="The run that answers; it needs a chat template.")
    ] = Path("runs/smollm2"),
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many lines are put before the question.")
    ] = 3,
    least: Annotated[
        float,
        typer.Option(min=-1, max=1, metavar="COSINE", help="Lines farther away are not used."),
    ] = 0.3,
    index: Place = None,
    rebuild: Rebuild = False,
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Answer a question from the nearest lines of a corpus, which are shown with it.

    The lines are found by one model and read by another; nothing leaves this machine.

    For example: regard ask notes.txt "When was the bridge built?"
    """
    from regard.data.lines import count_lines
    from regard.search.ask import ask as answer
    from regard.search.ask import reader
    from regard.search.index import open_index

    if not question.strip():
        raise UserError("the question is empty.")
    finder = _open(encoder, "minilm", device=device)
    talker = _open(generator, "smollm2", device=device, quantize=quantize)
    conversation = reader(talker, **given_options())  # refused before the vectors are made
    with progress(count_lines(corpus) if corpus.is_file() else None):
        found = open_index(finder, corpus, place=index, rebuild=rebuild, tell=tell)
    grounded = answer(found, conversation, question, top=top, least=least)
    if not grounded.used:
        tell(
            f"Nothing near the question was found in {corpus}: its nearest line has a cosine of "
            f"{grounded.nearest:.2f}, and --least is {least}."
        )
    if as_json:
        text = "".join(grounded.pieces) if grounded.used else None
        used = [vars(hit) for hit in grounded.used]
        print_json({"question": question, "answer": text, "used": used})
        return
    print_at_once(
        plain_text(f"[{number}] {hit.score:.4f}\t{hit.line}\t{hit.text}")
        for number, hit in enumerate(grounded.used, start=1)
    )
    if grounded.used:
        print_pieces("", grounded.pieces)


def _open(path: Path, name: str, *, device: str, quantize: str | None = None) -> "Run":
    """A run, or how to come by the one that is used where none is named."""
    if path == Path("runs") / name and not path.exists():
        option = "encoder" if name == "minilm" else "generator"
        raise UserError(
            f"{path} is not there: regard import {name} --out {path} makes it, or name another "
            f"run with --{option}."
        )
    return open_run(path, device=device, quantize=quantize)
