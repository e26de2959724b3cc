"""A conversation with a language model, whose answers appear as they are generated."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import torch

from regard.config import Decode
from regard.data.chat_template import ChatTemplate, Message
from regard.decoding import stream_texts
from regard.runs.run import Run
from regard.system.errors import UserError
from regard.tasks import LanguageModelling, Request
from regard.tasks.generating import after_prompt

LONGEST_ANSWER = 512
"""How many tokens an answer has at most, or half the context, where max_new_tokens is not given."""
STREAMED = ("greedy", "sample")
"""The strategies that never take a token back."""


class Conversation:
    """The turns so far, and the model that answers the next one.

    Where the context is full, the oldest turns are dropped; `dropped` says how many.
    """

    def __init__(self, run: Run, *, system: str | None = None, **decoding: Any) -> None:
        task = run.task
        if not isinstance(task, LanguageModelling) or task.template is None:
            raise UserError(
                f"{run.path} has no chat template: it was not trained on conversations. Use regard "
                f"predict, which continues a text."
            )
        self.run = run
        self.decode = _streamable(run, decoding)
        self.template = ChatTemplate(task.template, task.tokenizer)
        self.system: list[Message] = [] if system is None else [_message("system", system)]
        self.turns: list[Message] = []
        self.dropped = 0
        """Of the messages so far, how many no longer fit into the context."""
        self.prompt("Hello")  # a template that cannot be used is refused before anything is asked

    def prompt(self, text: str) -> list[int]:
        """The token ids of the conversation with one more message, as far as the context has room.

        Room is left for an answer of max_new_tokens.
        """
        turns = [*self.turns, _message("user", text)]
        room = self.run.config.data.max_length - self.decode.max_new_tokens
        dropped = self.dropped
        while True:
            ids = self.template.prompt([*self.system, *turns[dropped:]])
            if len(ids) <= room:
                self.dropped = dropped
                return ids
            if dropped + 1 >= len(turns):
                raise UserError(
                    f"The message has {len(ids):,} tokens with its template, and there is room for "
                    f"{max(0, room):,} (data.max_length less max_new_tokens). Shorten it, or pass "
                    f"a smaller --max-new-tokens."
                )
            dropped += 2  # a question and its answer

    @torch.inference_mode()
    def answer(self, text: str) -> Generator[str, None, None]:
        """The answer to one more message, piece by piece; what was read of it becomes a turn."""
        task, engine, ids = self.run.task, self.run.engine, self.prompt(text)
        generator, _ = task.generator(self.run.model, Request([], self.decode), engine)
        special = task.tokenizer.special
        whole = after_prompt(  # the template has put everything before the text that belongs there
            generator.stepper, engine.device, begun=lambda prompt: prompt, padding=special.filler
        )
        steps = replace(generator, begin=whole).steps([ids], numbers=[len(self.turns)])
        pieces: list[str] = []
        try:
            for _, piece in stream_texts(steps, task.tokenizer.decode):
                pieces.append(piece)
                yield piece
        finally:  # also where a person has stopped it
            self.turns += [_message("user", text), _message("assistant", "".join(pieces))]


def _streamable(run: Run, decoding: dict[str, Any]) -> Decode:
    """The decoding options, which must make one output token by token."""
    longest = min(LONGEST_ANSWER, run.config.data.max_length // 2)
    decode = run.decode_options({"max_new_tokens": longest} | decoding)
    if decode.strategy not in STREAMED:
        raise UserError(
            f"Answers are printed as they are generated, and strategy={decode.strategy} revises "
            f"them: it may be {' or '.join(STREAMED)}."
        )
    if decode.n_best > 1:
        raise UserError(f"n_best={decode.n_best}: a message has one answer.")
    return decode


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
