"""SplitText: the text of one split as token ids, kept on disk and mapped as it is needed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Integer

from regard.data.corpus import key_of, make_corpus, open_corpus
from regard.data.examples import Examples, Ids, InMemory
from regard.data.tally import Tally
from regard.data.text_source import TextSource
from regard.data.tokenizer import Tokenizer

ENCODED_TOGETHER = 128
"""How many pieces are encoded at a time."""
SIDES = ("text",)


@dataclass(frozen=True)
class SplitText:
    """One reading of a split; it is shared by all requests, and nothing changes it afterwards."""

    examples: Examples
    """A row per piece of the text."""
    tally: Tally
    """How many tokens, characters and bytes there are, and which lines were left out."""

    def ids(self) -> Integer[np.ndarray, "N"]:
        """The whole text, `</s>` after each document; not to be kept (`Examples.sides`)."""
        (side,) = self.examples.sides()
        return side.ids


def read_split(source: TextSource, tokenizer: Tokenizer) -> SplitText:
    """The token ids of a split: those of a file that are on disk already, or new ones."""
    tally, data = source.new_tally(), source.data
    if source.generated:
        rows = [ids for _, ids in _encoded(source, tokenizer, tally)]
        return SplitText(InMemory(rows), tally)
    key = key_of(
        source.fingerprint,
        [path.name for path in source.files],  # the end of a name is a format
        (data.text, data.label, data.documents, data.on_bad_line),
        (data.held_out, data.split_seed, source.split) if source.divided else None,
        tokenizer.hash,
    )
    corpus = open_corpus(key, tally)
    if corpus is None:
        encoded = _encoded(source, tokenizer, tally)
        corpus = make_corpus(key, encoded, tally=tally, sides=SIDES)
    return SplitText(corpus, tally)


def _encoded(source: TextSource, tokenizer: Tokenizer, tally: Tally) -> Iterator[tuple[None, Ids]]:
    """The token ids of each piece, counted."""
    pieces = source.pieces(tally)
    unknown = -1 if tokenizer.unknown is None else tokenizer.unknown  # no id is −1
    while chunk := list(islice(pieces, ENCODED_TOGETHER)):
        rows = tokenizer.encode([piece.text for piece in chunk])
        for piece, row in zip(chunk, rows, strict=True):
            ids = [*row, tokenizer.end] if piece.ends else row
            tally.use(1, [ids], unknown=unknown)
            tally.characters += piece.characters
            tally.bytes += piece.bytes
            yield None, ids


def trained_on_warning(sources: Iterable[TextSource]) -> list[str]:
    """A sentence, if what is evaluated is the very text that is trained on."""
    learned = [
        f"data.{source.split}"
        for source in sources
        if source.split != "train" and source.of_training and not source.divided
        if not source.generated  # a generator holds out its own
    ]
    if not learned:
        return []
    which = f"{' and '.join(learned)} {'is' if len(learned) == 1 else 'are'}"
    sentence = (
        f"{which} the text that is trained on: metrics say nothing of other texts. "
        f"data.held_out=0.1 keeps its end for them."
    )
    return [sentence]
