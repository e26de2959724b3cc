"""regard words: vectors of words, static and contextual."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import options
from regard.commands.opening import open_run
from regard.commands.terminal import one_line, print_at_once, print_json, tell
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.search.word_vectors import WordVectors

MOST_LINES = 2_000
"""Of a file whose words are compared in their contexts, at most so many lines are read."""


def words(
    source: Annotated[
        str,
        typer.Argument(
            metavar="glove|FILE|RUN",
            help="Installed vectors, a text file of them, a run with an encoder, or with --learn a "
            "text to learn vectors from.",
        ),
    ],
    near: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Show the nearest words.", callback=options.utf8_all),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUM",
            help="Show the words nearest to a sum, as 'king - man + woman'.",
            callback=options.utf8_all,
        ),
    ] = None,
    sentence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Of a run: the sentence that the word of --near stands in; of several, how near "
            "its vectors are to each other.",
            callback=options.utf8_all,
        ),
    ] = None,
    among: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a run: lines whose words are compared with it."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many words are shown.")] = 10,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn vectors from a text: skip-gram.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --learn: where the vectors go.")
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="With --learn: numbers per word.")] = 100,
    epochs: Annotated[int, typer.Option(min=1, help="With --learn: times through the text.")] = 5,
    min_count: Annotated[
        int, typer.Option(min=1, help="With --learn: leave out words that are rarer.")
    ] = 5,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Show the nearest neighbours of words, analogies, and how a word moves with its sentence.

    For example: regard words glove --analogy "king - man + woman"
    """
    of_run = (Path(source) / "config.yaml").is_file()
    if (sentence or among) and not of_run:
        raise UserError(f"--sentence and --among are for a run with an encoder; {source} is none.")
    if out is not None and not learn:
        raise UserError("--out goes with --learn.")
    if of_run:
        if learn or analogy:
            raise UserError(f"{source} is a run: its vectors are of words in sentences.")
        _in_sentences(Path(source), near, sentence or [], among, top, device, as_json)
        return
    if not (near or analogy or learn):
        raise UserError("say what to show: --near WORD, or --analogy 'king - man + woman'.")
    vectors = _learn(Path(source), out, width, epochs, min_count) if learn else _read(source)
    found = {word: vectors.near(word, top=top) for word in near or ()}
    found |= {total: vectors.analogy(total, top=top) for total in analogy or ()}
    if as_json:
        print_json({"near": [{"of": of, "words": _plain(rows)} for of, rows in found.items()]})
        return
    for of, rows in found.items():
        if len(found) > 1:
            print_at_once([f"> {of}"])
        print_at_once(f"{score:.4f}\t{word}" for word, score in rows)


def _plain(rows: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"word": word, "score": score} for word, score in rows]


def _read(source: str) -> "WordVectors":
    """The vectors that a name or a file stands for."""
    from regard.search.word_vectors import read_glove, read_vectors

    return read_glove() if source == "glove" else read_vectors(Path(source))


def _learn(
    source: Path, out: Path | None, width: int, epochs: int, min_count: int
) -> "WordVectors":
    """The vectors learned from a text, and kept if a place for them is named."""
    from regard.data.lines import read_text
    from regard.search.skip_gram import SkipGramOptions, learn
    from regard.search.word_vectors import write_vectors

    chosen = SkipGramOptions(width=width, epochs=epochs, min_count=min_count)
    vectors = learn(
        read_text(source),
        chosen,
        name=str(source),
        report=lambda epoch, loss: tell(f"epoch {epoch} of {epochs}: loss per pair {loss:.4f}"),
    )
    if out is not None:
        write_vectors(out, vectors)
    place = "" if out is None else f": {out}"
    tell(f"{len(vectors.words):,} words, {width} numbers each{place}")
    return vectors


def _in_sentences(
    path: Path,
    near: list[str] | None,
    sentences: list[str],
    among: Path | None,
    top: int,
    device: str,
    as_json: bool,
) -> None:
    """How near one word in its sentences is to itself, and to the words of a file in theirs."""
    from regard.search.contextual import compared, neighbours

    if not sentences or near is None or len(near) != 1:
        raise UserError(
            "of a run, name one word and a sentence that it stands in: --near bank --sentence "
            "'The bank lends money.'"
        )
    if len(sentences) < 2 and among is None:
        raise UserError("name two sentences to compare, or lines with --among FILE.")
    run, (word,) = open_run(path, device=device), near
    cosines = compared(run, word, sentences)
    lists = [] if among is None else neighbours(run, word, sentences, _lines(among), top=top)
    if as_json:
        rows = [[{"score": score, **vars(where)} for where, score in rows] for rows in lists]
        print_json({"word": word, "cosines": cosines.tolist(), "near": rows})
        return
    for number, text in enumerate(sentences):
        print_at_once([f"> {one_line(text)}"])
        others = (f"{value:.4f}" for value in cosines[number].tolist())
        print_at_once(["\t".join(others)] if len(sentences) > 1 else [])
        print_at_once(
            f"{score:.4f}\t{where.word}\t{where.line}\t{one_line(where.text)}"
            for where, score in (lists[number] if lists else ())
        )


def _lines(file: Path) -> list[str]:
    """The first lines of a file."""
    from itertools import islice

    from regard.data.lines import read_text

    lines = list(islice(read_text(file), MOST_LINES + 1))
    if len(lines) > MOST_LINES:
        tell(f"{file}: only its first {MOST_LINES:,} lines are compared.")
    return lines[:MOST_LINES]
