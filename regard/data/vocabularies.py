"""Tokenizers learned from texts: words, characters, and four kinds of subwords."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.system.errors import UserError

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
UNKNOWN_TOKEN = SPECIAL[3]
MASK_TOKEN = "[MASK]"
"""Stands for a word to be found; after SPECIAL in the tokenizers that are learned for that."""

Kind = Literal["bpe", "unigram", "wordpiece", "bytes", "words", "chars"]
Normalize = Literal["none", "nfc", "nfkc"]

NO_ROOM = "vocabulary is not large enough"
"""What the library's error says for a unigram model; for the others it raises none."""
LONGEST_WORD = 1000
"""Characters of the longest word that wordpiece splits; its time grows with their square."""
SPACE = "▁"
"""Stands for the space before a word, so that joined subwords give the text again."""


def learned(
    texts: Iterable[str],
    *,
    kind: Kind,
    vocab_size: int,
    lowercase: bool,
    normalize: Normalize,
    keep_spaces: bool = False,
    masks: bool = False,
) -> tokenizers.Tokenizer:
    """A tokenizer of this kind, learned from these texts; ids 0 to 3 are the special tokens.

    masks: id 4 is the mask. Wordpiece then splits as BERT's does, without tokens for spaces.
    """
    forms = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}
    steps = [] if normalize == "none" else [forms[normalize]()]
    if (
        kind not in ("words", "chars") and not keep_spaces
    ):  # a run of spaces becomes one, and none is left at the ends
        steps += [normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Strip()]
    steps += [normalizers.Lowercase()] if lowercase else []
    normalizer = normalizers.Sequence(steps) if steps else None
    special = [*SPECIAL, MASK_TOKEN] if masks else SPECIAL
    learner = _bert_wordpiece if masks and kind == "wordpiece" else LEARNERS[kind]
    backend = learner(texts, vocab_size, normalizer, special=special)
    if normalizer is not None:
        backend.normalizer = normalizer
    return backend


def _whole(
    texts: Iterable[str],
    vocab_size: int,
    normalizer: normalizers.Normalizer | None,
    split: pre_tokenizers.PreTokenizer,
    special: Sequence[str],
) -> tokenizers.Tokenizer:
    """A vocabulary of whole tokens, as `split` finds them: by frequency, then alphabetically.

    A word that looks like a special token is left out: it is read as unknown, and ends no text.
    """
    normalize = str if normalizer is None else normalizer.normalize_str
    counts = Counter(
        token for text in texts for token, _ in split.pre_tokenize_str(normalize(text))
    )
    tokens = sorted(counts.keys() - set(special), key=lambda token: (-counts[token], token))
    vocabulary = {token: number for number, token in enumerate([*special, *tokens][:vocab_size])}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    backend.pre_tokenizer = split
    return backend


def _words(
    texts: Iterable[str],
    vocab_size: int,
    normalizer: normalizers.Normalizer | None,
    *,
    special: Sequence[str],
) -> tokenizers.Tokenizer:
    """A vocabulary of words: what is between spaces."""
    return _whole(texts, vocab_size, normalizer, pre_tokenizers.WhitespaceSplit(), special)


def _chars(
    texts: Iterable[str],
    vocab_size: int,
    normalizer: normalizers.Normalizer | None,
    *,
    special: Sequence[str],
) -> tokenizers.Tokenizer:
    """A vocabulary of characters, including spaces."""
    each = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    backend = _whole(texts, vocab_size, normalizer, each, special)
    backend.decoder = decoders.Fuse()  # no spaces between the characters
    return backend


def _spaced() -> pre_tokenizers.PreTokenizer:
    """Splits a text into words, each with the space before it, and punctuation characters."""
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(SPACE), pre_tokenizers.Punctuation("isolated")]
    )


def _spaced_by_han() -> pre_tokenizers.PreTokenizer:
    """`_spaced`, and every Chinese character a word: no spaces separate words there."""
    each = pre_tokenizers.Split(tokenizers.Regex(r"\p{Han}"), "isolated")
    return pre_tokenizers.Sequence([_spaced(), each])


def _subwords(
    texts: Iterable[str],
    vocab_size: int,
    normalizer: normalizers.Normalizer | None,
    *,
    special: Sequence[str],
    model: Callable[[], models.Model],
    trainer: Callable[..., trainers.Trainer],
    split: Callable[[], pre_tokenizers.PreTokenizer] = _spaced,
    decoder: Callable[[], decoders.Decoder] = lambda: decoders.Metaspace(SPACE),
    **options: Any,
) -> tokenizers.Tokenizer:
    """A vocabulary of subwords of what `split` finds; options: the trainer's own."""
    backend = tokenizers.Tokenizer(model())
    backend.pre_tokenizer = split()
    if normalizer is not None:
        backend.normalizer = normalizer
    chosen = trainer(
        vocab_size=vocab_size, special_tokens=list(special), show_progress=False, **options
    )
    try:
        backend.train_from_iterator(texts, chosen)
        fits = backend.get_vocab_size() <= vocab_size
    except Exception as error:  # the library has no other kind
        if NO_ROOM not in str(error):
            raise
        fits = False
    if not fits:
        raise UserError(
            f"tokenizer.vocab_size={vocab_size} is too small: every character of the texts needs "
            f"an entry (with wordpiece two). Make it larger, or use tokenizer.kind=bytes."
        )
    backend.decoder = decoder()
    # The library would read "</s>" in a text as the end of it. As plain entries of the vocabulary
    # the special tokens keep their ids, and no text is encoded to them.
    plain = json.loads(backend.to_str()) | {"added_tokens": []}
    return tokenizers.Tokenizer.from_str(json.dumps(plain))


def _by_words() -> pre_tokenizers.PreTokenizer:
    """Words, punctuation characters and Chinese characters, without the spaces between them.

    `<unk>`, which some corpora have in place of rare words, is a word: the unknown token.
    """
    word = r"[^\s\p{P}\p{S}\p{Han}]+"
    pattern = tokenizers.Regex(rf"{UNKNOWN_TOKEN}|[\p{{P}}\p{{S}}\p{{Han}}]|{word}")
    return pre_tokenizers.Split(pattern, "removed", invert=True)


LEARNERS: dict[str, Callable[..., tokenizers.Tokenizer]] = {
    # Byte-pair encoding of characters (Sennrich et al. 2016): the most frequent pair is merged.
    "bpe": partial(
        _subwords,
        model=partial(models.BPE, unk_token=UNKNOWN_TOKEN),
        trainer=trainers.BpeTrainer,
        min_frequency=2,
    ),
    # The subwords whose unigram model makes the texts most likely (Kudo 2018).
    "unigram": partial(
        _subwords,
        model=models.Unigram,
        trainer=trainers.UnigramTrainer,
        unk_token=UNKNOWN_TOKEN,
    ),
    # BERT's: the longest subword that fits, repeatedly; ## marks a subword that continues a word.
    # "#" is punctuation, hence a word by itself, so that "##" never comes from a text. A word with
    # a character that is not in the vocabulary is unknown, and so is one above LONGEST_WORD.
    "wordpiece": partial(
        _subwords,
        model=partial(
            models.WordPiece, unk_token=UNKNOWN_TOKEN, max_input_chars_per_word=LONGEST_WORD
        ),
        trainer=trainers.WordPieceTrainer,
        split=_spaced_by_han,
        decoder=lambda: decoders.Sequence([decoders.Replace("##", ""), decoders.Metaspace(SPACE)]),
        min_frequency=2,
    ),
    # Byte-pair encoding of bytes (Radford et al. 2019): no text has unknown parts.
    "bytes": partial(
        _subwords,
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
"""The function that learns each kind."""

_bert_wordpiece = partial(
    LEARNERS["wordpiece"],
    split=_by_words,
    decoder=partial(decoders.WordPiece, prefix="##", cleanup=False),
)
"""Wordpiece that loses the spaces of a text, as BERT's: for models that generate none."""
