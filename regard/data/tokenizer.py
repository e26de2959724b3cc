"""Text to token ids and back, through the `tokenizers` library."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import tokenizers

from regard.data.vocabularies import SPECIAL, UNKNOWN_TOKEN, Kind, Normalize, learned

PADDING, START, END, UNKNOWN = range(4)
"""The special ids that our own tokenizers are made with; a run asks its tokenizer for them."""


@dataclass(frozen=True)
class SpecialIds:
    """The ids of a vocabulary that mean something else than a part of a text.

    A vocabulary may lack any but the end: GPT-2's has `<|endoftext|>` alone, and "!" has id 0.
    """

    end: int
    """Ends a text."""
    start: int | None = None
    """Goes before the first token of a target."""
    padding: int | None = None
    """Fills up short rows of a batch; None: any id does, for lengths say which tokens are real."""
    unknown: int | None = None
    """Stands for what has no id of its own."""

    @property
    def all(self) -> frozenset[int]:
        """Every special id."""
        ids = (self.padding, self.start, self.end, self.unknown)
        return frozenset(one for one in ids if one is not None)

    @property
    def never_generated(self) -> tuple[int, ...]:
        """The ids that no output may contain: all but the end."""
        ids = (self.padding, self.start, self.unknown)
        return tuple(one for one in ids if one is not None and one != self.end)

    @property
    def first(self) -> int:
        """The id that a target begins with: the start, or the end of a text before it."""
        return self.end if self.start is None else self.start

    @property
    def filler(self) -> int:
        """The id that fills up short rows."""
        return 0 if self.padding is None else self.padding

    @property
    def ignored(self) -> int:
        """The target that the loss leaves out: padding, or where there is none, no id at all."""
        return -100 if self.padding is None else self.padding


OURS = SpecialIds(padding=PADDING, start=START, end=END, unknown=UNKNOWN)
"""The special ids of the tokenizers that are learned here."""

NEVER_WRITTEN = OURS.never_generated


class Tokenizer:
    """Words, characters or subwords, each an id; the special ids are its own.

    special: which ids those are; if not given, the ids that the file has for `<pad>`, `<s>`,
    `</s>` and `<unk>`.
    """

    def __init__(self, text: str, special: SpecialIds | None = None) -> None:
        self._backend = tokenizers.Tokenizer.from_str(text)
        self.json = text
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        self.special = special or _special_in(self._backend)
        # No text makes these, even if the library finds one in it; `</s>` would end it.
        self._forbidden = self.special.all - {self.special.unknown}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int,
        kind: Kind = "words",
        lowercase: bool = False,
        normalize: Normalize = "nfc",
    ) -> "Tokenizer":
        """The tokenizer of this kind that is learned from these texts."""
        backend = learned(
            texts, kind=kind, vocab_size=vocab_size, lowercase=lowercase, normalize=normalize
        )
        return cls(backend.to_str(pretty=True))

    @classmethod
    def read(cls, files: dict[str, str], name: str) -> "Tokenizer":
        """The tokenizer in one of a run's files, given by their texts."""
        if name not in files:
            raise ValueError(f"{name} is missing: a run cannot read text without it")
        try:
            return cls(files[name])
        except Exception as error:  # the library raises plain Exception for a malformed file
            raise ValueError(f"{name} is not a tokenizer: {error}") from None

    @property
    def padding(self) -> int | None:
        """The id that fills up short rows, if there is one."""
        return self.special.padding

    @property
    def start(self) -> int | None:
        """The id that goes before a target's first token, if there is one."""
        return self.special.start

    @property
    def end(self) -> int:
        """The id that ends a text."""
        return self.special.end

    @property
    def unknown(self) -> int | None:
        """The id of what has no id of its own, if there is one."""
        return self.special.unknown

    @property
    def never_generated(self) -> tuple[int, ...]:
        """The ids that no output may contain."""
        return self.special.never_generated

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without `<s>` and `</s>`; what has no id is `<unk>`."""
        rows = self._backend.encode_batch(texts, add_special_tokens=False)
        return [self._plain(row.ids) for row in rows]

    def _plain(self, ids: list[int]) -> list[int]:
        """The ids with `<unk>` where a text contains what looks like a special token."""
        if self.unknown is None or self._forbidden.isdisjoint(ids):
            return ids
        return [self.unknown if token in self._forbidden else token for token in ids]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of these ids, special ones included."""
        return [self._backend.id_to_token(token) or UNKNOWN_TOKEN for token in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, without `<pad>`, `<s>` and `</s>`."""
        kept = [token for token in ids if token not in self._forbidden]
        return self._backend.decode(kept, skip_special_tokens=False)

    def words(self, text: str) -> list[str]:
        """What subwords are cut from: words with the space before them, and punctuation."""
        normalizer, split = self._backend.normalizer, self._backend.pre_tokenizer
        normal = text if normalizer is None else normalizer.normalize_str(text)
        return [word for word, _ in split.pre_tokenize_str(normal)]

    def normal(self, text: str) -> str:
        """The text as `decode` would give it: spaces and case as this tokenizer knows them."""
        normalizer = self._backend.normalizer
        cased = text if normalizer is None else normalizer.normalize_str(text)
        return " ".join(cased.split()) if self._backend.decoder is None else cased

    def first_unknown(self, text: str) -> str | None:
        """The first token of a text that has no id of its own, if there is one."""
        row = self._backend.encode(text, add_special_tokens=False)
        places = zip(row.ids, row.offsets, strict=True)
        return next(
            (text[begin:end] for token, (begin, end) in places if token in self.special.all), None
        )

    def sample(self, most: int = 12) -> str:
        """A few of the tokens, to show what is known."""
        special = self.special.all
        known = self.tokens(token for token in range(len(self)) if token not in special)
        return " ".join(sorted(known)[:most]) + (" …" if len(known) > most else "")


def _special_in(backend: tokenizers.Tokenizer) -> SpecialIds:
    """The ids of `<pad>`, `<s>`, `</s>` and `<unk>` in a vocabulary."""
    padding, start, end, unknown = (backend.token_to_id(token) for token in SPECIAL)
    if end is None:
        raise ValueError("it has no </s>, and does not say what ends a text")
    return SpecialIds(padding=padding, start=start, end=end, unknown=unknown)
