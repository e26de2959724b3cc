"""Text to token ids and back, through the `tokenizers` library."""

import hashlib
from collections.abc import Iterable

import tokenizers

from regard.data.vocabularies import SPECIAL, Kind, Normalize, learned

PADDING, START, END, UNKNOWN = range(4)
NEVER_WRITTEN = (PADDING, START, UNKNOWN)


class Tokenizer:
    """Words, characters or pieces, each an id; 0 padding, 1 `<s>`, 2 `</s>`, 3 `<unk>`."""

    def __init__(self, text: str) -> None:
        self._backend = tokenizers.Tokenizer.from_str(text)
        self.json = text
        self.hash = hashlib.sha256(text.encode()).hexdigest()

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
        """The tokenizer that these texts ask for."""
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

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without `<s>` and `</s>`; what has no id is `<unk>`."""
        found = self._backend.encode_batch(texts, add_special_tokens=False)
        return [[max(one, UNKNOWN) for one in row.ids] for row in found]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of these ids, special ones included."""
        return [self._backend.id_to_token(one) or SPECIAL[UNKNOWN] for one in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, without `<pad>`, `<s>` and `</s>`."""
        written = [one for one in ids if one >= UNKNOWN]
        return self._backend.decode(written, skip_special_tokens=False)

    def words(self, text: str) -> list[str]:
        """What pieces are cut from: words with the space before them, and punctuation."""
        normalizer, split = self._backend.normalizer, self._backend.pre_tokenizer
        written = text if normalizer is None else normalizer.normalize_str(text)
        return [word for word, _ in split.pre_tokenize_str(written)]

    def normal(self, text: str) -> str:
        """The text as `decode` would write it: spaces and capitals as this tokenizer knows them."""
        normalizer = self._backend.normalizer
        cased = text if normalizer is None else normalizer.normalize_str(text)
        return " ".join(cased.split()) if self._backend.decoder is None else cased

    def unknown(self, text: str) -> str | None:
        """The first token of a text that has no id of its own, if there is one."""
        row = self._backend.encode(text, add_special_tokens=False)
        places = (place for one, place in zip(row.ids, row.offsets, strict=True) if one <= UNKNOWN)
        return next((text[begin:end] for begin, end in places), None)

    def sample(self, most: int = 12) -> str:
        """A few of the tokens, to show what is known."""
        known = self.tokens(range(UNKNOWN + 1, len(self)))
        return " ".join(sorted(known)[:most]) + (" …" if len(known) > most else "")
