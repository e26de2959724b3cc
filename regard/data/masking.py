"""What a masked language model is trained on: rows with masks and pairs, new in every epoch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.batches import dealt_out, pad, padded
from regard.data.examples import Examples, Ids, Side
from regard.data.frame import FRAME, framed, framed_pair
from regard.data.sentence_rows import SentenceRows
from regard.data.tokenizer import Tokenizer

SentencePairs = Literal["nsp", "sop", "none"]
FOLLOWS, FOLLOWS_NOT = 0, 1
"""The classes of a pair: the second text follows the first; it does not, or they are swapped."""
NO_TARGET = -100
"""The target of a position that is not asked for, and the class of a row without a pair."""
MASKED, REPLACED = 0.8, 0.1
"""The shares of chosen tokens that become the mask, and another token; the rest are kept."""
TRIES = 8
"""How often another document is looked for that has enough text after a sentence."""


def room_for(pairs: SentencePairs, max_length: int) -> tuple[int, int]:
    """How many tokens of text a row has, and a sentence at most, so that a row has two."""
    room = max_length - FRAME - (pairs != "none")
    return room, room if pairs == "none" else room // 2


@dataclass(frozen=True)
class MaskedBatch:
    """Rows as the model reads them, and what it is to find."""

    source: Int[Tensor, "B L"]
    lengths: Int[Tensor, "B"]
    """How many tokens of each row are real."""
    segments: Int[Tensor, "B L"]
    """Which of the two texts each token belongs to."""
    targets: Int[Tensor, "B L"]
    """The token at each chosen position, and NO_TARGET elsewhere."""
    classes: Int[Tensor, "B"]
    """FOLLOWS, FOLLOWS_NOT, or NO_TARGET where a row is one text."""
    pairs: SentencePairs

    @property
    def counts(self) -> dict[str, int]:
        """How many targets each loss has, by its name."""
        words = {"mlm": int((self.targets != NO_TARGET).sum())}
        if self.pairs == "none":
            return words
        return words | {self.pairs: int((self.classes != NO_TARGET).sum())}

    def to(self, device: torch.device) -> "MaskedBatch":
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in self._tensors}
        return replace(self, **moved)

    def rows(self, which: slice) -> "MaskedBatch":
        """Some of its rows, padded as they are here."""
        return replace(self, **{name: getattr(self, name)[which] for name in self._tensors})

    def shares(self, count: int) -> "list[MaskedBatch]":
        """Its rows dealt out to at most this many batches."""
        return [self.rows(which) for which in dealt_out(len(self.source), count)]

    @property
    def _tensors(self) -> tuple[str, ...]:
        return ("source", "lengths", "segments", "targets", "classes")


@dataclass(frozen=True)
class Masking:
    """How rows become examples (Devlin et al. 2019, §3.1)."""

    tokenizer: Tokenizer
    pairs: SentencePairs
    rate: float
    """The share of tokens that are chosen."""
    whole_words: bool
    room: int
    """How many tokens of text a row may have."""

    def example(
        self, rows: SentenceRows, number: int, random: np.random.Generator
    ) -> tuple[Ids, Ids, int, int]:
        """A row's token ids, its targets, how long its first text is, framed, and its class."""
        first, second, class_ = self._texts(rows, number, random)
        special = self.tokenizer.special
        row = framed_pair(first, second, special) if second else framed(first, special)
        source, targets = self._masked(row, random)
        return source, targets, len(first) + FRAME, class_

    def _texts(
        self, rows: SentenceRows, number: int, random: np.random.Generator
    ) -> tuple[Ids, Ids, int]:
        """One text or two, and the class of the pair."""
        place = rows.row(number)
        sentences = place.sentences
        if self.pairs == "none" or len(sentences) < 2:
            return _joined(sentences), [], NO_TARGET
        split = int(random.integers(1, len(sentences)))
        first, second = _joined(sentences[:split]), _joined(sentences[split:])
        if random.random() < 0.5:
            return first, second, FOLLOWS
        if self.pairs == "sop":
            return second, first, FOLLOWS_NOT
        # A row is full unless its document ends: so is one with a text from elsewhere.
        room = len(second) if place.ends_document else self.room - len(first)
        return first, self._from_elsewhere(rows, number, room, random), FOLLOWS_NOT

    def _from_elsewhere(
        self, rows: SentenceRows, number: int, room: int, random: np.random.Generator
    ) -> Ids:
        """Whole sentences of another document, as many as there is room for.

        They do not begin a row, and so no document: no second text that follows its first does.
        """
        first, end = rows.document(number)
        longest = Ids()
        for _ in range(TRIES):
            other = int(random.integers(len(rows) - (end - first)))
            other += (end - first) * (other >= first)
            text, filled = _filled(rows, other, room, random)
            longest = max(longest, text, key=len)
            if filled:
                return text
        return longest

    def _masked(self, row: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """A row with some tokens masked, and the tokens that were there."""
        special = self.tokenizer.special.all
        units = [[place] for place, token in enumerate(row) if token not in special]
        wanted = max(1, round(self.rate * len(units)))
        if self.whole_words:
            units = self._words(units, row)
        source, targets, found = list(row), [NO_TARGET] * len(row), 0
        for unit in random.permutation(len(units)):
            places = units[unit]
            if found and found + len(places) > wanted:
                continue
            for place in places:
                targets[place], source[place] = row[place], self._changed(row[place], random)
            found += len(places)
            if found >= wanted:
                break
        return source, targets

    def _words(self, units: list[list[int]], row: Ids) -> list[list[int]]:
        """The places of each word together."""
        continues, words = self.tokenizer.continues_word, list[list[int]]()
        for (place,) in units:
            if words and words[-1][-1] == place - 1 and continues[row[place]]:
                words[-1].append(place)
            else:
                words.append([place])
        return words

    def _changed(self, token: int, random: np.random.Generator) -> int:
        """The mask, any other token, or the same."""
        chance = random.random()
        if chance < MASKED:
            assert self.tokenizer.special.mask is not None
            return self.tokenizer.special.mask
        if chance >= MASKED + REPLACED:
            return token
        plain = self.tokenizer.plain_ids
        return plain[int(random.integers(len(plain)))]

    def batch(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        firsts: Sequence[Ids],
        classes: Sequence[Ids],
    ) -> MaskedBatch:
        """A batch of such examples; what is one number of each stands in a row of one."""
        tokens, lengths = padded(sources, self.tokenizer.special)
        places = torch.arange(tokens.size(1))
        second = (places >= torch.tensor(firsts)) & (places < lengths[:, None])  # B L
        return MaskedBatch(
            tokens,
            lengths,
            second.long(),
            pad(targets, padding=NO_TARGET),
            torch.tensor(classes)[:, 0],
            self.pairs,
        )


class MaskedRows(Examples):
    """The rows of a text with the masks and pairs of one epoch: functions of (seed, epoch, row)."""

    def __init__(self, examples: Examples, masking: Masking, *, seed: int, epoch: int) -> None:
        self._examples = examples
        self._masking = masking
        self._seed = seed, epoch

    def __len__(self) -> int:
        return len(self._examples)

    def sides(self) -> tuple[Side, ...]:
        return self._examples.sides()

    def lengths(self, begin: int, end: int) -> Int[np.ndarray, "N sides"]:
        """The tokens of each row, twice: there are as many targets."""
        return np.repeat(self._examples.lengths(begin, end)[:, :1] + FRAME, 2, axis=1)

    def rows(self, numbers: Int[np.ndarray, "B"]) -> tuple[list[Ids], ...]:
        """Token ids, targets, lengths of the first texts, and classes."""
        rows, masking = SentenceRows(self._examples), self._masking
        examples = [
            masking.example(rows, number, np.random.default_rng([*self._seed, number]))
            for number in numbers.tolist()
        ]
        sources, targets, firsts, classes = zip(*examples, strict=True)
        return list(sources), list(targets), [[n] for n in firsts], [[n] for n in classes]


def _joined(sentences: Sequence[Ids]) -> Ids:
    return [token for sentence in sentences for token in sentence]


def _filled(
    rows: SentenceRows, number: int, room: int, random: np.random.Generator
) -> tuple[Ids, bool]:
    """Sentences from a random one of a row on, till the next has no room; whether one had none.

    A first one that has no room itself is cut, which no row of one document is: not `filled`.
    """
    place = rows.row(number)
    count = len(place.sentences)
    sentences = place.sentences[int(random.integers(1, count)) if count > 1 else 0 :]
    if not place.ends_document:
        sentences = sentences + rows.row(number + 1).sentences
    if len(sentences[0]) > room:
        return sentences[0][:room], False
    text = Ids()
    for sentence in sentences:
        if len(text) + len(sentence) > room:
            return text, True
        text = text + sentence
    return text, len(text) == room
