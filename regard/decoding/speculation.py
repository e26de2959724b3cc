"""Speculation: several guessed tokens are read in one step, and those that were right are free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.stepper import Reader

LONGEST_NGRAM = 3
"""The most tokens at the end of a text that are looked for earlier in it."""


def lookup(text: Sequence[int], count: int) -> list[int]:
    """What followed when the text last had the n-gram that it ends with: up to `count` tokens.

    Prompt lookup (Saxena 2023): for the longest n-gram that occurs before; none, if none does.
    """
    for n in range(min(LONGEST_NGRAM, len(text) - 1), 0, -1):
        last = list(text[-n:])
        for begin in range(len(text) - n - 1, -1, -1):
            if list(text[begin : begin + n]) == last:
                return list(text[begin + n : begin + n + count])
    return []


def read_rows(
    model: Reader, rows: Sequence[Sequence[int]], state: Any, *, device: torch.device
) -> tuple[list[Float[Tensor, "_ V"]], Any]:
    """Read these tokens, any number per row: the logits after each, and the next state."""
    lengths = torch.tensor([len(row) for row in rows])
    padded = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row, dtype=torch.long)
    hidden, state = model.read(padded.to(device), state, lengths.to(device))
    return [model.output(hidden[number, : len(row)]) for number, row in enumerate(rows)], state


@dataclass
class DraftState:
    """Where a draft model stands, row by row."""

    inner: Any
    read: list[int]
    """How many tokens of each row's text it has read."""


class Draft:
    """A smaller model with the same vocabulary, which guesses greedily."""

    def __init__(self, model: Reader) -> None:
        self.model = model

    def guess(
        self,
        texts: Sequence[list[int]],
        counts: Sequence[int],
        state: DraftState,
        *,
        device: torch.device,
    ) -> list[list[int]]:
        """The counts[b] tokens that it would generate after text b, of which it reads the rest."""
        guesses: list[list[int]] = [[] for _ in texts]
        unread = [
            text[seen:] if count else []
            for text, seen, count in zip(texts, state.read, counts, strict=True)
        ]
        while any(unread):
            logits, state.inner = read_rows(self.model, unread, state.inner, device=device)
            for guess, of_row in zip(guesses, logits, strict=True):
                guess += of_row[-1:].argmax(dim=-1).tolist()
            unread = [
                guess[-1:] if len(guess) < count else []
                for guess, count in zip(guesses, counts, strict=True)
            ]
        for row, guess in enumerate(guesses):
            state.read[row] = len(texts[row]) if guess else state.read[row]
        unconfirmed = [max(0, len(guess) - 1) for guess in guesses]  # the last one was not read
        state.inner = state.inner.back(torch.tensor(unconfirmed, device=device))
        return guesses


@dataclass
class SpeculativeState:
    """What was read, and what was read ahead of it; a step changes it."""

    inner: Any
    texts: list[list[int]]
    """The tokens of each row: the prompt and what came after it."""
    ahead: list[list[int]]
    """The guessed tokens of each row that the model has read after its text."""
    logits: list[Float[Tensor, "_ V"]]
    """The logits after each of those."""
    draft: DraftState | None = None

    def select(self, rows: Int[Tensor, "N"]) -> "SpeculativeState":
        chosen = rows.tolist()
        draft = self.draft
        if draft is not None:
            draft = DraftState(draft.inner.select(rows), [draft.read[row] for row in chosen])
        return SpeculativeState(
            self.inner.select(rows),
            [list(self.texts[row]) for row in chosen],
            [list(self.ahead[row]) for row in chosen],
            [self.logits[row] for row in chosen],
            draft,
        )


class Speculative:
    """A stepper that reads the next token and some guesses after it in one step of the model.

    If the guess was right, the next step has its logits already. Whoever searches gets the same
    logits, up to rounding, as from the model alone: greedy search finds the same tokens, and
    sampling with the same seed samples the same ones. Leviathan et al. 2023 accept a guess with
    probability min(1, p/q); here a token is sampled from p, and was guessed or was not.

    The guesses are what followed earlier in the text (`lookup`), or a draft model's.
    """

    def __init__(self, model: Reader, count: int, draft: Reader | None = None) -> None:
        self.model = model
        self.count = count
        self.draft = None if draft is None else Draft(draft)

    def start(
        self, prompt: Int[Tensor, "B L"], lengths: Int[Tensor, "B"] | None = None
    ) -> SpeculativeState:
        texts = prompt.tolist()
        if lengths is not None:
            texts = [text[:length] for text, length in zip(texts, lengths.tolist(), strict=True)]
        draft = None
        if self.draft is not None:
            draft = DraftState(self.draft.model.start(prompt, lengths), [len(t) for t in texts])
        nothing = [torch.empty(0, 0) for _ in texts]
        inner = self.model.start(prompt, lengths)
        return SpeculativeState(inner, texts, [[] for _ in texts], nothing, draft)

    def step(
        self, tokens: Int[Tensor, "B"], state: SpeculativeState
    ) -> tuple[Float[Tensor, "B V"], SpeculativeState]:
        right: list[bool] = []
        for row, token in enumerate(tokens.tolist()):
            state.texts[row].append(token)
            right.append(state.ahead[row][:1] == [token])
        if not all(right):
            self._read(state, right, tokens.device)
        logits = torch.stack([of_row[0] for of_row in state.logits])
        for row in range(len(right)):
            # What is ahead begins with the token that was just read.
            state.ahead[row], state.logits[row] = state.ahead[row][1:], state.logits[row][1:]
        return logits, state

    def _read(self, state: SpeculativeState, right: list[bool], device: torch.device) -> None:
        """Go back to where the guesses were right; there read the token and new guesses."""
        wrong = [
            0 if known else len(ahead) for known, ahead in zip(right, state.ahead, strict=True)
        ]
        inner = state.inner.back(torch.tensor(wrong, device=device))
        room = [self.model.max_length - 1 - length for length in inner.lengths.tolist()]
        wanted = [
            0 if known else int(min(self.count, max(0, most)))
            for known, most in zip(right, room, strict=True)
        ]
        if self.draft is None or state.draft is None:
            guesses = [lookup(text, most) for text, most in zip(state.texts, wanted, strict=True)]
        else:
            guesses = self.draft.guess(state.texts, wanted, state.draft, device=device)
        unread = [
            [] if known else [text[-1], *guess]
            for known, text, guess in zip(right, state.texts, guesses, strict=True)
        ]
        logits, state.inner = read_rows(self.model, unread, inner, device=device)
        for row, tokens in enumerate(unread):
            if tokens:
                state.ahead[row], state.logits[row] = tokens, logits[row]
