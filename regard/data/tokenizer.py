"""Text to token ids and back, through the `tokenizers` library."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from regard.errors import UserError

PADDING, START, END, UNKNOWN = range(4)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


class Tokenizer:
    """Words between spaces, each an id; 0 padding, 1 `<s>`, 2 `</s>`, 3 `<unk>`."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self.json = backend.to_str(pretty=True)
        self.hash = hashlib.sha256(self.json.encode()).hexdigest()

    @classmethod
    def train(cls, texts: Iterable[str], *, vocab_size: int) -> "Tokenizer":
        """The words of these texts, the most frequent first."""
        backend = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL[UNKNOWN]))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordLevelTrainer(
            vocab_size=vocab_size, special_tokens=SPECIAL, show_progress=False
        )
        backend.train_from_iterator(texts, trainer)
        return cls(backend)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """The tokenizer in a tokenizer.json."""
        try:
            return cls(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise UserError(f"{path} is missing: a run cannot read text without it.") from None
        except Exception as error:  # the library raises plain Exception for a malformed file
            raise UserError(f"{path} is not a tokenizer: {error}.") from None

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without `<s>` and `</s>`."""
        return [found.ids for found in self._backend.encode_batch(texts, add_special_tokens=False)]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of these ids, special ones included."""
        return [self._backend.id_to_token(one) or SPECIAL[UNKNOWN] for one in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, special ones left out."""
        return " ".join(self.tokens(one for one in ids if one > UNKNOWN))

    def unknown(self, text: str) -> str | None:
        """The first word of a text that has no id of its own, if there is one."""
        known = self._backend.token_to_id
        return next((word for word in text.split() if (known(word) or 0) <= UNKNOWN), None)

    def sample(self, most: int = 12) -> str:
        """A few of the words, to show what is known."""
        words = self.tokens(range(UNKNOWN + 1, len(self)))
        return " ".join(sorted(words)[:most]) + (" …" if len(words) > most else "")
