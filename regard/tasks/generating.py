"""Generating outputs for many lines: those of like length together, the answers in order."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.config import Decode
from regard.data.batches import FEWEST_ROWS, pad
from regard.data.examples import Ids
from regard.decoding import (
    Constraint,
    Hypothesis,
    Step,
    Stepper,
    TokenProbabilities,
    collect,
    make_rules,
    search,
    stop_at,
)
from regard.system.engine import Engine
from regard.system.memory import naming_the_batch
from regard.system.threads import side_by_side
from regard.tasks.request import Counts

listener: ContextVar[Callable[[int, int], None] | None] = ContextVar("listener", default=None)
"""Called whenever a batch is done, with its number of lines and the number of all lines."""

MAX_ROWS = 128
"""The most rows of a batch."""
REMEDY = "a smaller decode.beam or decode.max_new_tokens (--beam, --max-new-tokens)"
"""What to try where there is not enough memory."""
MAX_THREADS = 8
"""More threads gain nothing: only one at a time can run Python and say what to compute next."""

Begin = Callable[[Sequence[Ids]], tuple[Any, Int[Tensor, "B"]]]
"""Lines, as token ids -> the state that a search begins from, and the first token of each row."""


def after_source(
    model: Stepper, device: torch.device, *, start: int, end: int, padding: int
) -> Begin:
    """An encoder-decoder reads `source </s>`; its output begins after `<s>`."""

    def begin(sources: Sequence[Ids]) -> tuple[Any, Int[Tensor, "B"]]:
        rows = [[*source, end] for source in sources]
        state = model.start(pad(rows, padding=padding).to(device), _lengths(rows, device))
        return state, torch.full((len(rows),), start, device=device)

    return begin


def after_prompt(
    model: Stepper, device: torch.device, *, begun: Callable[[Ids], Ids], padding: int
) -> Begin:
    """A language model reads a prompt but its last token, which is the first of the search.

    begun: puts what stands before a text before a prompt, so that an empty one has a last token.
    """

    def begin(prompts: Sequence[Ids]) -> tuple[Any, Int[Tensor, "B"]]:
        rows = [begun(prompt) for prompt in prompts]
        read = [row[:-1] for row in rows]
        state = model.start(pad(read, padding=padding).to(device), _lengths(read, device))
        return state, torch.tensor([row[-1] for row in rows], device=device)

    return begin


def _lengths(rows: Sequence[Ids], device: torch.device) -> Int[Tensor, "B"]:
    return torch.tensor([len(row) for row in rows], device=device)


@dataclass(frozen=True)
class Generator:
    """A model with all that a search needs besides its sources or prompts."""

    stepper: Stepper
    begin: Begin
    """How some sources become the beginning of a search."""
    decode: Decode
    engine: Engine
    _: KW_ONLY
    end: int
    never: Sequence[int]
    """Tokens that are not generated, as in `search`."""
    continues: bool = False
    """Whether sources are prompts, which penalties and n-grams count as well."""
    constraint: Constraint | None = None
    """What all outputs must match."""
    stop: Sequence[str] = ()
    """An output ends where its text contains one of these."""
    text: Callable[[list[int]], str] = str
    """How the tokens of an output become text, where there are strings to stop at."""
    alternatives: int = 0
    """Keep the probability of each token, and so many of the most probable ones; 0: neither."""

    def steps(
        self,
        sources: Sequence[Ids],
        *,
        numbers: Sequence[int],
        prefixes: Sequence[Ids] | None = None,
    ) -> Iterator[Step]:
        """The search over some sources, all in one batch.

        numbers: the line number of each source; what is sampled for a line depends on it, and not
        on the lines in the same batch. prefixes: what each output begins with.
        """
        state, first = self.begin(sources)
        rules = make_rules(
            self.decode,
            end=self.end,
            lengths=_lengths(sources, self.engine.device),
            prompts=sources if self.continues else None,
            prefixes=prefixes,
            constraint=self.constraint,
        )
        steps = search(
            self.stepper,
            state,
            first,
            self.decode,
            end=self.end,
            never=self.never,
            rules=rules,
            seeds=[(self.decode.seed << 32) + number for number in numbers],
        )
        return stop_at(steps, self.stop, self.text) if self.stop else steps

    def hypotheses(
        self,
        sources: Sequence[Ids],
        *,
        numbers: Sequence[int] | None = None,
        prefixes: Sequence[Ids] | None = None,
    ) -> list[list[Hypothesis]]:
        """The n_best hypotheses of each source; those of like length are searched together."""
        numbers = range(len(sources)) if numbers is None else numbers

        @torch.inference_mode()
        def of_rows(rows: list[int]) -> list[list[Hypothesis]]:
            lines = [sources[row] for row in rows]
            longest = 1 + max(len(line) for line in lines)
            place = f"{len(rows)} lines of up to {longest} tokens at a time"
            with self.engine.autocast(), naming_the_batch(place, remedy=REMEDY):
                steps = self.steps(
                    lines,
                    numbers=[numbers[row] for row in rows],
                    prefixes=None if prefixes is None else [prefixes[row] for row in rows],
                )
                return self._collected(steps)

        batches, threads = _batches(sources, self.engine)
        outputs: list[list[Hypothesis]] = [[] for _ in sources]
        on_batch = listener.get()
        with side_by_side(min(threads, len(batches))) as mapped:
            for rows, of_batch in zip(batches, mapped(of_rows, batches), strict=True):
                for row, hypotheses in zip(rows, of_batch, strict=True):
                    outputs[row] = hypotheses
                if on_batch is not None:
                    on_batch(len(rows), len(sources))
        return outputs

    def _collected(self, steps: Iterator[Step]) -> list[list[Hypothesis]]:
        if not self.alternatives:
            return collect(steps, n_best=self.decode.n_best)
        probabilities = TokenProbabilities(self.alternatives)
        hypotheses = collect(probabilities.watch(steps), n_best=self.decode.n_best)
        return probabilities.added_to(hypotheses)


def _batches(sources: Sequence[Ids], engine: Engine) -> tuple[list[list[int]], int]:
    """The numbers of the sources of each batch, and how many batches to compute at a time."""
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    threads = min(torch.get_num_threads(), MAX_THREADS) if engine.device.type == "cpu" else 1
    shares = max(1, min(threads, len(order) // FEWEST_ROWS))
    size = min(MAX_ROWS, max(1, math.ceil(len(order) / shares)))
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    batches.reverse()  # the longest first, so that no thread is left alone with them at the end
    return batches, threads


def count_generated(outputs: Sequence[Sequence[Hypothesis]]) -> Counts:
    """How many outputs were generated, and how many of them were cut."""
    return Counts(outputs=len(outputs), cut=sum(not best.finished for best, *_ in outputs))
