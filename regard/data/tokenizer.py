"""Text to token ids and back, through the `tokenizers` library."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import tokenizers
from pydantic import ConfigDict

from regard.data.vocabularies import (
    MASK_TOKEN,
    SPECIAL,
    UNKNOWN_TOKEN,
    Kind,
    Normalize,
    learned,
)
from regard.system.json_files import parse_json

PADDING, START, END, UNKNOWN = range(4)
"""The special ids that our own tokenizers are made with; a run takes them from its tokenizer."""

SPECIAL_KEY = "special_ids"
"""The key in a run's tokenizer file for special ids that the library's file does not tell."""


@dataclass(frozen=True)
class SpecialIds:
    """The ids of a vocabulary that do not stand for text.

    Only the end is required: GPT-2 has `<|endoftext|>` and no other, and its id 0 is "!".
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    end: int
    """Ends a text."""
    start: int | None = None
    """Goes before the first token of a target."""
    padding: int | None = None
    """Pads short rows of a batch; None: any id may, since lengths say which tokens are real."""
    unknown: int | None = None
    """Stands for text that is not in the vocabulary."""
    mask: int | None = None
    """Stands in the place of a token that a model is to find: BERT's [MASK]."""
    opening: tuple[int, ...] | None = None
    """What a language model reads before a text; None: the end of the text before it."""

    def __post_init__(self) -> None:
        if self.end in (self.padding, self.unknown):
            raise ValueError(
                f"id {self.end} ends a text, and cannot be padding or unknown as well; leave it out"
            )

    @property
    def all(self) -> frozenset[int]:
        """Every special id."""
        ids = (self.padding, self.start, self.end, self.unknown, self.mask)
        return frozenset(token for token in ids if token is not None)

    @property
    def never_generated(self) -> tuple[int, ...]:
        """The ids that no output may contain: all but the end."""
        ids = (self.padding, self.start, self.unknown, self.mask)
        return tuple(token for token in ids if token is not None and token != self.end)

    @property
    def first(self) -> int:
        """The id that a target begins with: the start or, if there is none, the end."""
        return self.end if self.start is None else self.start

    @property
    def filler(self) -> int:
        """The id that pads short rows."""
        return 0 if self.padding is None else self.padding

    @property
    def ignored(self) -> int:
        """The target that the loss leaves out: padding or, without it, −100, which is no id."""
        return -100 if self.padding is None else self.padding


OURS = SpecialIds(padding=PADDING, start=START, end=END, unknown=UNKNOWN)
"""The special ids of the tokenizers that Regard learns."""


class Located(NamedTuple):
    """Token ids of a text, and the characters that each stands for: text[begin:end]."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class Tokenizer:
    """Text to token ids and back, with the special ids of its vocabulary.

    special: which ids those are; if not given, those that the text stores (`special_ids`), or else
    the ids that it has for `<pad>`, `<s>`, `</s>` and `<unk>`.

    json: what a run stores, special ids included. library_json: what the library can read.
    """

    def __init__(self, text: str, special: SpecialIds | None = None) -> None:
        self.library_json, stored = _parted(text)
        self._backend = tokenizers.Tokenizer.from_str(self.library_json)
        in_file = stored or _special_in(self._backend)
        chosen = special or in_file
        if chosen is None:
            raise ValueError("it has no </s>, and no other id is given for the end of a text")
        self.special = chosen
        self.json = text if self.special == in_file else _joined(self.library_json, self.special)
        self.hash = hashlib.sha256(self.json.encode()).hexdigest()
        for token in self.special.all:
            if self._backend.id_to_token(token) is None:
                raise ValueError(f"its special id {token} is not one of its {len(self)} tokens")
        # No text is encoded to these, even if it contains "</s>", which would end it.
        self._forbidden = self.special.all - {self.special.unknown}
        # Without an unknown token to put there, "<|endoftext|>" in a text is read as plain text.
        self._backend.encode_special_tokens = self.unknown is None

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int,
        kind: Kind = "words",
        lowercase: bool = False,
        normalize: Normalize = "nfc",
        keep_spaces: bool = False,
        masks: bool = False,
    ) -> "Tokenizer":
        """A tokenizer of this kind, learned from these texts.

        keep_spaces: runs of spaces and line breaks stay as they are, which chars always keeps.
        masks: it has `[MASK]` too, which its file then tells.
        """
        backend = learned(
            texts,
            kind=kind,
            vocab_size=vocab_size,
            lowercase=lowercase,
            normalize=normalize,
            keep_spaces=keep_spaces,
            masks=masks,
        )
        special = replace(OURS, mask=backend.token_to_id(MASK_TOKEN)) if masks else None
        return cls(backend.to_str(pretty=True), special)

    @classmethod
    def read(cls, files: dict[str, str], name: str) -> "Tokenizer":
        """The tokenizer in the file `name` of a run; files: the texts of its files, by name."""
        if name not in files:
            raise ValueError(f"{name} is missing: a run cannot read text without it")
        try:
            return cls(files[name])
        except Exception as error:  # the library raises plain Exception for a malformed file
            raise ValueError(f"{name} is not a tokenizer: {error}") from None

    @property
    def padding(self) -> int | None:
        """The id that pads short rows, if there is one."""
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
        """The id of text that is not in the vocabulary, if there is one."""
        return self.special.unknown

    @property
    def never_generated(self) -> tuple[int, ...]:
        """The ids that no output may contain."""
        return self.special.never_generated

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without `<s>` and `</s>`; unknown text becomes `<unk>`."""
        rows = self._backend.encode_batch(texts, add_special_tokens=False)
        return [self._plain(row.ids) for row in rows]

    def locate(self, texts: list[str]) -> list[Located]:
        """What `encode` returns, with the place of every token in its text."""
        located = []
        for row in self._backend.encode_batch(texts, add_special_tokens=False):
            parts = [
                (part, offset)
                for token, offset in zip(row.ids, row.offsets, strict=True)
                for part in (self._spelled(token) if token in self._forbidden else [token])
            ]
            located.append(Located([part for part, _ in parts], [place for _, place in parts]))
        return located

    def encode_masked(self, text: str) -> list[int]:
        """Token ids of a text, with the mask where it says `[MASK]`."""
        first, *others = text.split(MASK_TOKEN)
        ids = self._ids(first)
        for part in others:
            ids += [self.special.mask or 0, *self._going_on(part)]
        return ids

    def _going_on(self, part: str) -> list[int]:
        """The ids of a part that stands after a mask: it does not begin a text.

        It is encoded after another word or comma, whose ids are then left out.
        """
        guard = "," if part[:1].isalnum() else "a"
        whole, (before, alone) = self._ids(guard + part), self.encode([guard, part])
        return whole[len(before) :] if whole[: len(before)] == before else alone

    @cached_property
    def plain_ids(self) -> list[int]:
        """Every id that stands for text."""
        return [token for token in range(len(self)) if token not in self.special.all]

    @cached_property
    def continues_word(self) -> list[bool]:
        """Of each token, whether it goes on with the word of the token before it."""
        tokens = self.tokens(range(len(self)))
        if any(token.startswith("##") for token in tokens):
            return [token.startswith("##") for token in tokens]
        space = next((mark for mark in "▁Ġ" if any(t.startswith(mark) for t in tokens)), None)
        return [space is not None and token[:1].isalnum() for token in tokens]

    def _plain(self, ids: list[int]) -> list[int]:
        """The ids, with `<unk>` in place of special tokens that the text contains.

        Without `<unk>`, the characters of such a token take its place.
        """
        if self._forbidden.isdisjoint(ids):
            return ids
        plain = {token: self._spelled(token) for token in self._forbidden.intersection(ids)}
        return [part for token in ids for part in plain.get(token, [token])]

    def _spelled(self, token: int) -> list[int]:
        """The ids of a special token's characters, or `<unk>` if there is one."""
        if self.unknown is not None:
            return [self.unknown]
        characters = self._backend.encode_batch(
            list(self._backend.id_to_token(token) or ""), add_special_tokens=False
        )
        return [part for row in characters for part in row.ids if part not in self._forbidden]

    def begun(self, prompt: list[int]) -> list[int]:
        """A prompt as a language model reads it, after what stands before a text; never empty."""
        opening = (self.end,) if self.special.opening is None else self.special.opening
        return [*opening, *prompt] or [self.end]

    @cached_property
    def spellings(self) -> dict[str, int]:
        """Every token that does not stand for text, and its id; the longest first."""
        added = self._backend.get_added_tokens_decoder()
        ids = {number for number, token in added.items() if token.special} | self.special.all
        texts = {self._backend.id_to_token(number) or "": number for number in sorted(ids)}
        return dict(sorted(texts.items(), key=lambda item: -len(item[0])))

    def encode_spelled(self, text: str, *, guard: str) -> list[int]:
        """Token ids of a text in which special tokens are spelled out, as chat templates do.

        guard: a character that is taken out of what is no special token. It stands inside those
        that a person wrote, which are plain text.
        """
        parts = re.split(f"({'|'.join(map(re.escape, self.spellings))})", text)
        ids: list[int] = []
        for number, part in enumerate(parts):  # text and special tokens take turns
            ids += [self.spellings[part]] if number % 2 else self._ids(part.replace(guard, ""))
        return ids

    def _ids(self, text: str) -> list[int]:
        return self.encode([text])[0]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of these ids, special ones included."""
        return [self._backend.id_to_token(token) or UNKNOWN_TOKEN for token in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, without `<pad>`, `<s>` and `</s>`."""
        kept = [token for token in ids if token not in self._forbidden]
        return self._backend.decode(kept, skip_special_tokens=False)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of `encode` stands in a text: its first character, and the one after."""
        return list(self._backend.encode(text, add_special_tokens=False).offsets)

    def words(self, text: str) -> list[str]:
        """The words that subwords are made of, each with the space before it, and punctuation."""
        normalizer, split = self._backend.normalizer, self._backend.pre_tokenizer
        normalized = text if normalizer is None else normalizer.normalize_str(text)
        return [word for word, _ in split.pre_tokenize_str(normalized)]

    def normal(self, text: str) -> str:
        """The text as `decode` would return it, with this tokenizer's spaces and case."""
        normalizer = self._backend.normalizer
        cased = text if normalizer is None else normalizer.normalize_str(text)
        return " ".join(cased.split()) if self._backend.decoder is None else cased

    def first_unknown(self, text: str) -> str | None:
        """The first token of a text that is not in the vocabulary, if there is one."""
        row = self._backend.encode(text, add_special_tokens=False)
        tokens = zip(row.ids, row.offsets, strict=True)
        return next(
            (text[begin:end] for token, (begin, end) in tokens if token in self.special.all), None
        )

    def sample(self, most: int = 12) -> str:
        """A few tokens of the vocabulary, as an example of what it contains."""
        special = self.special.all
        known = self.tokens(token for token in range(len(self)) if token not in special)
        return " ".join(sorted(known)[:most]) + (" …" if len(known) > most else "")


def _special_in(backend: tokenizers.Tokenizer) -> SpecialIds | None:
    """The ids of `<pad>`, `<s>`, `</s>` and `<unk>` in a vocabulary; None if it has no `</s>`."""
    padding, start, end, unknown = (backend.token_to_id(token) for token in SPECIAL)
    if end is None:
        return None
    return SpecialIds(padding=padding, start=start, end=end, unknown=unknown)


def _parted(text: str) -> tuple[str, SpecialIds | None]:
    """A run's tokenizer file as the library's, which refuses other keys, and the special ids."""
    content = json.loads(text)
    if not isinstance(content, dict) or SPECIAL_KEY not in content:
        return text, None
    ids = content.pop(SPECIAL_KEY)
    return _dumped(content), parse_json(json.dumps(ids), SpecialIds, where=SPECIAL_KEY)


def _joined(text: str, special: SpecialIds) -> str:
    """A run's tokenizer file: the library's, with the special ids."""
    return _dumped({SPECIAL_KEY: asdict(special), **json.loads(text)})


def _dumped(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2)
