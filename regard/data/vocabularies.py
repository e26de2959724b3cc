"""Tokenizers learned from texts: words, characters, and four ways to cut words into pieces."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.system.errors import UserError

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
UNKNOWN_TOKEN = SPECIAL[3]

Kind = Literal["bpe", "unigram", "wordpiece", "bytes", "words", "chars"]
Normalize = Literal["none", "nfc", "nfkc"]

NO_ROOM = "vocabulary is not large enough"
"""What the library says of a unigram model, and says nothing of the others."""
LONGEST_WORD = 1000
"""Of which wordpiece finds the pieces; its search takes time with the square of that."""
SPACE = "▁"
"""Stands for the space before a word, so that pieces joined together are the text again."""


def learned(
    texts: Iterable[str], *, kind: Kind, vocab_size: int, lowercase: bool, normalize: Normalize
) -> tokenizers.Tokenizer:
    """The tokenizer of this kind that these texts ask for: ids 0 to 3 are the special ones."""
    forms = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}
    steps = [] if normalize == "none" else [forms[normalize]()]
    if kind not in ("words", "chars"):  # runs of spaces are one, and none stands at the ends
        steps += [normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Strip()]
    steps += [normalizers.Lowercase()] if lowercase else []
    normalizer = normalizers.Sequence(steps) if steps else None
    backend = LEARNERS[kind](texts, vocab_size, normalizer)
    if normalizer is not None:
        backend.normalizer = normalizer
    return backend


def _whole(
    texts: Iterable[str],
    vocab_size: int,
    normalizer: normalizers.Normalizer | None,
    split: pre_tokenizers.PreTokenizer,
) -> tokenizers.Tokenizer:
    """What `split` finds, the most frequent first; alike frequent ones in order of their letters.

    A word that looks like a special token is no word: it stays unknown, and cannot end a line.
    """
    written = str if normalizer is None else normalizer.normalize_str
    counts = Counter(one for text in texts for one, _ in split.pre_tokenize_str(written(text)))
    known = sorted(counts.keys() - set(SPECIAL), key=lambda one: (-counts[one], one))
    vocabulary = {one: number for number, one in enumerate([*SPECIAL, *known][:vocab_size])}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    backend.pre_tokenizer = split
    return backend


def _words(
    texts: Iterable[str], vocab_size: int, normalizer: normalizers.Normalizer | None
) -> tokenizers.Tokenizer:
    """What stands between spaces."""
    return _whole(texts, vocab_size, normalizer, pre_tokenizers.WhitespaceSplit())


def _chars(
    texts: Iterable[str], vocab_size: int, normalizer: normalizers.Normalizer | None
) -> tokenizers.Tokenizer:
    """Every character, spaces among them."""
    each = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    backend = _whole(texts, vocab_size, normalizer, each)
    backend.decoder = decoders.Fuse()  # no spaces between the characters
    return backend


def _spaced() -> pre_tokenizers.PreTokenizer:
    """Words with the space before them; punctuation by itself."""
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(SPACE), pre_tokenizers.Punctuation("isolated")]
    )


def _spaced_by_han() -> pre_tokenizers.PreTokenizer:
    """The same, and every Chinese character by itself, for no spaces tell words from each other."""
    each = pre_tokenizers.Split(tokenizers.Regex(r"\p{Han}"), "isolated")
    return pre_tokenizers.Sequence([_spaced(), each])


def _pieces(
    texts: Iterable[str],
    vocab_size: int,
    normalizer: normalizers.Normalizer | None,
    *,
    model: Callable[[], models.Model],
    trainer: Callable[..., trainers.Trainer],
    split: Callable[[], pre_tokenizers.PreTokenizer] = _spaced,
    decoder: Callable[[], decoders.Decoder] = lambda: decoders.Metaspace(SPACE),
    **options: Any,
) -> tokenizers.Tokenizer:
    """Pieces of what `split` finds, as the trainer chooses them; options: the trainer's own."""
    backend = tokenizers.Tokenizer(model())
    backend.pre_tokenizer = split()
    if normalizer is not None:
        backend.normalizer = normalizer
    chosen = trainer(vocab_size=vocab_size, special_tokens=SPECIAL, show_progress=False, **options)
    try:
        backend.train_from_iterator(texts, chosen)
        fits = backend.get_vocab_size() <= vocab_size
    except Exception as error:  # the library has no other kind
        if NO_ROOM not in str(error):
            raise
        fits = False
    if not fits:
        raise UserError(
            f"tokenizer.vocab_size={vocab_size} is too small: every character of the texts is a "
            f"piece already (for wordpiece two). Make it larger, or take tokenizer.kind=bytes."
        )
    backend.decoder = decoder()
    # The library would find "</s>" in a text and take it for the end of it. As plain entries of the
    # vocabulary the special tokens keep their ids, and no text makes them.
    plain = json.loads(backend.to_str()) | {"added_tokens": []}
    return tokenizers.Tokenizer.from_str(json.dumps(plain))


LEARNERS: dict[
    str,
    Callable[[Iterable[str], int, normalizers.Normalizer | None], tokenizers.Tokenizer],
] = {
    # Byte-pair encoding of characters (Sennrich et al. 2016): the most frequent pair is merged.
    "bpe": partial(
        _pieces,
        model=partial(models.BPE, unk_token=UNKNOWN_TOKEN),
        trainer=trainers.BpeTrainer,
        min_frequency=2,
    ),
    # The pieces whose unigram model makes the texts most likely (Kudo 2018).
    "unigram": partial(
        _pieces,
        model=models.Unigram,
        trainer=trainers.UnigramTrainer,
        unk_token=UNKNOWN_TOKEN,
    ),
    # BERT's: the longest piece that fits, again and again; ## before what goes on in a word. "#" is
    # punctuation, hence always a piece by itself, so that "##" is never of the text. A word with a
    # character that it lacks is unknown, and so is one of over LONGEST_WORD characters.
    "wordpiece": partial(
        _pieces,
        model=partial(
            models.WordPiece, unk_token=UNKNOWN_TOKEN, max_input_chars_per_word=LONGEST_WORD
        ),
        trainer=trainers.WordPieceTrainer,
        split=_spaced_by_han,
        decoder=lambda: decoders.Sequence([decoders.Replace("##", ""), decoders.Metaspace(SPACE)]),
        min_frequency=2,
    ),
    # Byte-pair encoding of bytes (Radford et al. 2019), to which no text is unknown.
    "bytes": partial(
        _pieces,
        model=models.BPE,
        trainer=trainers.BpeTrainer,
        split=partial(pre_tokenizers.ByteLevel, add_prefix_space=False),
        decoder=decoders.ByteLevel,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    ),
    "words": _words,
    "chars": _chars,
}
"""How each kind is learned."""
