"""regard search: the nearest lines of a corpus."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands import options
from regard.commands.embed import Pool
from regard.commands.opening import open_run
from regard.commands.terminal import print_at_once, print_json, progress, tell
from regard.system.errors import UserError

Corpus = Annotated[Path, typer.Argument(metavar="CORPUS", help="A text file, one text per line.")]
Place = Annotated[
    Path | None,
    typer.Option(
        "--index",
        metavar="DIR",
        help="Where the vectors of the corpus are kept. [beside it, CORPUS.index]",
        show_default=False,
    ),
]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Make the vectors of the corpus anew.")]


def search(
    run: options.RunPath,
    corpus: Corpus,
    query: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="What to look for; may be repeated.", callback=options.utf8_all
        ),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One query per line, instead of --query.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many lines per query.")] = 5,
    index: Place = None,
    pool: Pool = None,
    int8: Annotated[
        bool,
        typer.Option(
            "--int8", help="Keep the vectors in 8 bits: a quarter of the space; recall is printed."
        ),
    ] = False,
    rebuild: Rebuild = False,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Find the lines of a corpus that are nearest to a text, by the cosine of their vectors.

    The vectors are made at the first search and kept beside the corpus.

    For example: regard search runs/minilm lines.txt --query "Who wrote it?"
    """
    from regard.data.lines import count_lines
    from regard.search.index import open_index

    wanted, name = _queries(query, queries)
    opened = open_run(run, device=device)
    with progress(count_lines(corpus) if corpus.is_file() else None):
        found = open_index(
            opened,
            corpus,
            place=index,
            pool=pool,
            numbers="int8" if int8 else "float32",
            rebuild=rebuild,
            tell=tell,
        )
    recall = found.manifest.recall
    if recall is not None:
        tell(f"int8: recall@10 {recall:.3f} of the float32 vectors, on a sample of the lines.")
    hits = found.search(wanted, top=top, name=name)
    if as_json:
        results: list[dict[str, Any]] = [
            {"query": text, "hits": [vars(hit) for hit in of_one]}
            for text, of_one in zip(wanted, hits, strict=True)
        ]
        print_json({"results": results, "recall_at_10": recall})
        return
    for text, of_one in zip(wanted, hits, strict=True):
        if len(wanted) > 1:
            print_at_once([f"> {text}"])
        print_at_once(f"{hit.score:.4f}\t{hit.line}\t{hit.text}" for hit in of_one)


def _queries(query: list[str] | None, file: Path | None) -> tuple[list[str], str]:
    """What to look for, and what it is called in a message."""
    if bool(query) == (file is not None):
        raise UserError("say what to look for: --query TEXT, or --queries FILE.")
    if query:
        if not all(map(str.strip, query)):
            raise UserError("--query is empty: there is nothing to look for.")
        return query, "--query"
    assert file is not None
    from regard.data.lines import read_text

    lines = [line for line in read_text(file) if line.strip()]
    if not lines:
        raise UserError(f"{file} is empty: there is nothing to look for.")
    return lines, str(file)
