"""Text to token ids and back, through the `tokenizers` library."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import models, pre_tokenizers

from regard.errors import UserError

PADDING, START, END, UNKNOWN = range(4)
NEVER_WRITTEN = (PADDING, START, UNKNOWN)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


class Tokenizer:
    """Words between spaces, each an id; 0 padding, 1 `<s>`, 2 `</s>`, 3 `<unk>`."""

    def __init__(self, text: str) -> None:
        self._backend = tokenizers.Tokenizer.from_str(text)
        self.json = text
        self.hash = hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def train(cls, texts: Iterable[str], *, vocab_size: int) -> "Tokenizer":
        """The words of these texts, the most frequent first.

        A word that looks like a special token is no word: it stays unknown, and cannot end a line.
        """
        split = pre_tokenizers.WhitespaceSplit()
        counts = Counter(word for text in texts for word, _ in split.pre_tokenize_str(text))
        words = sorted(counts.keys() - set(SPECIAL), key=lambda word: (-counts[word], word))
        vocabulary = [*SPECIAL, *words][:vocab_size]
        backend = tokenizers.Tokenizer(
            models.WordLevel(
                {word: number for number, word in enumerate(vocabulary)}, unk_token=SPECIAL[UNKNOWN]
            )
        )
        backend.pre_tokenizer = split
        return cls(backend.to_str(pretty=True))

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """The tokenizer in a tokenizer.json."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{path} is missing: a run cannot read text without it.") from None
        except Exception as error:  # the library raises plain Exception for a malformed file
            raise UserError(f"{path} is not a tokenizer: {error}.") from None

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without `<s>` and `</s>`; a word without an id is `<unk>`."""
        found = self._backend.encode_batch(texts, add_special_tokens=False)
        return [[max(one, UNKNOWN) for one in row.ids] for row in found]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of these ids, special ones included."""
        return [self._backend.id_to_token(one) or SPECIAL[UNKNOWN] for one in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, without `<pad>`, `<s>` and `</s>`."""
        return " ".join(self.tokens(one for one in ids if one >= UNKNOWN))

    def unknown(self, text: str) -> str | None:
        """The first word of a text that has no id of its own, if there is one."""
        row = self._backend.encode(text, add_special_tokens=False)
        places = (place for one, place in zip(row.ids, row.offsets, strict=True) if one <= UNKNOWN)
        return next((text[begin:end] for begin, end in places), None)

    def sample(self, most: int = 12) -> str:
        """A few of the words, to show what is known."""
        words = self.tokens(range(UNKNOWN + 1, len(self)))
        return " ".join(sorted(words)[:most]) + (" …" if len(words) > most else "")
