"""The sentences of one split as packed rows of token ids, kept on disk and mapped as needed."""

from collections.abc import Iterator
from itertools import islice

from regard.config import Data
from regard.data.corpus import key_of, make_corpus, open_corpus
from regard.data.examples import Ids, InMemory
from regard.data.masking import room_for
from regard.data.sentence_rows import SIDES, PackedRow, SentenceRows, packed
from regard.data.sentences import sentences
from regard.data.tally import Tally
from regard.data.text_source import TextSource
from regard.data.tokenizer import Tokenizer
from regard.system.errors import UserError
from regard.tasks.split_data import SplitData
from regard.tasks.split_text import ENCODED_TOGETHER


def read_sentences(source: TextSource, tokenizer: Tokenizer) -> SplitData:
    """The packed rows of a split: those of a file that are on disk already, or new ones."""
    tally, data = source.new_tally(), source.data
    room = room_for(data.sentence_pairs, data.max_length)
    rows = _rows(source, tokenizer, tally, room=room)
    if source.generated:
        sides = [list(side) for side in zip(*(row[1:] for row in rows), strict=True)]
        read = SplitData(InMemory(*sides), tally)
    else:
        key = key_of(
            "sentences",
            source.fingerprint,
            [path.name for path in source.files],  # the end of a name is a format
            (data.text, data.documents, data.on_bad_line),
            (data.held_out, data.split_seed, source.split) if source.divided else None,
            tokenizer.hash,
            room,
        )
        corpus = open_corpus(key, tally)
        if corpus is None:
            corpus = make_corpus(key, rows, tally=tally, sides=SIDES)
        read = SplitData(corpus, tally)
    _refuse_without_pairs(source, SentenceRows(read.examples), data)
    return read


def _rows(
    source: TextSource, tokenizer: Tokenizer, tally: Tally, *, room: tuple[int, int]
) -> Iterator[PackedRow]:
    """Packed rows, counted."""
    most, longest = room
    unknown = -1 if tokenizer.unknown is None else tokenizer.unknown  # no id is −1
    for row in packed(_encoded(source, tokenizer, tally), room=most, longest=longest):
        tally.use(1, [row[1]], unknown=unknown)
        yield row
    if tally.tokens == tally.unknown:
        raise UserError(f"{source.path}: the text has no token that the vocabulary knows.")


def _encoded(source: TextSource, tokenizer: Tokenizer, tally: Tally) -> Iterator[tuple[Ids, bool]]:
    """The token ids of each sentence, and whether its document ends there."""
    parts = _sentences(source, tally)
    while chunk := list(islice(parts, ENCODED_TOGETHER)):
        encoded = tokenizer.encode([text for text, _ in chunk])
        yield from zip(encoded, (ends for _, ends in chunk), strict=True)


def _sentences(source: TextSource, tally: Tally) -> Iterator[tuple[str, bool]]:
    """Each sentence, and whether its document ends there: an empty one closes a document."""
    for piece in source.pieces(tally):
        for sentence in sentences(piece.text):
            yield sentence, False
        if piece.ends:
            yield "", True


def _refuse_without_pairs(source: TextSource, rows: SentenceRows, data: Data) -> None:
    """Refuse a text of which no pairs can be made as data.sentence_pairs says."""
    pairs, where = data.sentence_pairs, f"data.{source.split}={source.name!r}"
    if pairs == "none":
        return
    remedy = "with data.sentence_pairs=none, rows of one text are enough."
    if not rows.pairs:
        raise UserError(
            f"{where}: the text is too short for pairs: none of its {rows.documents:,} documents "
            f"has two sentences (data.documents={data.documents} says what a document is); {remedy}"
        )
    if pairs == "nsp" and rows.documents < 2:
        raise UserError(
            f"{where}: all of the text is one document (data.documents={data.documents}), and half "
            f"of the next sentences are taken from another one: say what divides documents, or "
            f"use data.sentence_pairs=sop; {remedy}"
        )
