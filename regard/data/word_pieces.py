"""Words as the tokens that they are made of, each with the place of its first one."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from regard.data.examples import Ids
from regard.data.tokenizer import Located, SpecialIds, Tokenizer


class WordPieces(NamedTuple):
    """The token ids of a sentence, and where the first piece of each word stands among them."""

    ids: Ids
    starts: list[int]


def word_pieces(
    sentences: Sequence[Sequence[str]], tokenizer: Tokenizer, *, framed: bool
) -> list[WordPieces]:
    """The pieces of sentences of words; framed: between a start and an end, as BERT reads them.

    The words are encoded together, with spaces between them: so every tokenizer makes of them what
    it makes of a text. A word that it makes nothing of, such as a control character, is unknown.
    """
    special = tokenizer.special
    located = tokenizer.locate([" ".join(words) for words in sentences])
    pairs = zip(sentences, located, strict=True)
    pieces = [_aligned(words, text, special) for words, text in pairs]
    if not framed:
        return pieces
    return [
        WordPieces([special.first, *ids, special.end], [start + 1 for start in starts])
        for ids, starts in pieces
    ]


def _aligned(words: Sequence[str], text: Located, special: SpecialIds) -> WordPieces:
    begins = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    nothing = special.filler if special.unknown is None else special.unknown
    ids: Ids = []
    starts: list[int] = []

    def skip_to(word: int) -> None:
        while len(starts) < word:
            starts.append(len(ids))
            ids.append(nothing)

    for token, (begin, end) in zip(text.ids, text.offsets, strict=True):
        # By its last character: the first may be the space before the word.
        word = bisect_right(begins, end - 1) - 1
        inside = begin < end <= begins[word] + len(words[word])
        if inside and word >= len(starts):
            skip_to(word)
            starts.append(len(ids))
        ids.append(token)
    skip_to(len(words))
    return WordPieces(ids, starts)
