"""Contextual word vectors: what an encoder makes of a word depends on the words around it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from regard.runs.run import Run
from regard.search import exact
from regard.search.skip_gram import WORD
from regard.system.errors import UserError
from regard.tasks.embedding import Embedder


@dataclass(frozen=True)
class Occurrence:
    """A word where it stands in a text."""

    word: str
    line: int
    """The number of the text, counted from 1."""
    text: str


def occurrences(
    run: Run, lines: Sequence[str], *, word: str | None = None
) -> tuple[list[Occurrence], Float[np.ndarray, "N D"]]:
    """Every word of some texts, or one word alone, with its vector there, of length 1.

    The vector of a word is the mean of the last hidden states of its pieces.
    """
    embedder = run.embedder(on_long="cut")
    found: list[Occurrence] = []
    vectors: list[np.ndarray] = []
    for number, line in enumerate(lines, start=1):
        spans = [match.span() for match in WORD.finditer(line)]
        if word is not None:
            pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", flags=re.IGNORECASE)
            spans = [match.span() for match in pattern.finditer(line)]
        if not spans:
            continue
        states, offsets = _states(embedder, line)
        for begin, end in spans:
            pieces = [
                place for place, (first, last) in enumerate(offsets) if first < end and last > begin
            ]
            if pieces:
                vector = states[pieces].mean(axis=0)
                vectors.append(vector / max(float(np.linalg.norm(vector)), 1e-12))
                found.append(Occurrence(line[begin:end], number, line))
    return found, np.stack(vectors) if vectors else np.empty((0, embedder.width), np.float32)


def _states(
    embedder: Embedder, line: str
) -> tuple[Float[np.ndarray, "L D"], list[tuple[int, int]]]:
    """The hidden state of each token of a text, and where it stands there."""
    (ids,) = embedder.read([line]).ids
    offsets = embedder.tokenizer.offsets(line)[: len(ids)]
    if not ids:
        return np.empty((0, embedder.width), np.float32), []
    row = torch.tensor([embedder.row(ids)], device=embedder.engine.device)
    with torch.inference_mode():
        hidden = embedder.encode(row).hidden[0].float().cpu().numpy()
    first = 1 if embedder.framed else 0
    return hidden[first : first + len(ids)], offsets


def compared(run: Run, word: str, lines: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """The cosines between the vectors of one word in each of some texts."""
    found, vectors = occurrences(run, lines, word=word)
    places = {occurrence.line: place for place, occurrence in reversed(list(enumerate(found)))}
    for number, line in enumerate(lines, start=1):
        if number not in places:
            raise UserError(f"{word!r} does not stand in {line[:80]!r}.")
    chosen = vectors[[places[number] for number in range(1, len(lines) + 1)]]
    return chosen @ chosen.T


def neighbours(
    run: Run, word: str, lines: Sequence[str], others: Sequence[str], *, top: int = 10
) -> list[list[tuple[Occurrence, float]]]:
    """For each line that the word stands in: the words of other lines nearest to it there."""
    found, vectors = occurrences(run, others)
    if not found:
        raise UserError("There is no word in the lines to compare with.")
    nearest = []
    for line in lines:
        _, wanted = occurrences(run, [line], word=word)
        scores, rows = exact.search(wanted[:1], vectors, top=top)
        pairs = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        nearest.append([(found[row], score) for row, score in pairs])
    return nearest
