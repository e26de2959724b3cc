"""Retrieval-augmented generation: the lines that a search finds, put before a question.

Lewis et al. (2020) train retriever and generator together; here both are as they came, and the
lines stand in the prompt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.runs.chat import Conversation
from regard.runs.run import Run
from regard.search.index import Hit, Index
from regard.system.errors import UserError

SYSTEM = (
    "You answer questions from the notes that are given, in one or two sentences. If the notes do "
    "not contain the answer, you say that you do not know."
)


@dataclass(frozen=True)
class Grounded:
    """A question, the lines that are put before it, and the answer as it is generated."""

    used: list[Hit]
    """The nearest first; none: nothing near was found, and nothing is generated."""
    nearest: float
    """The cosine of the nearest line, used or not."""
    prompt: str
    """The message that the generator reads."""
    pieces: Iterator[str]


def reader(generator: Run, **decoding: Any) -> Conversation:
    """What reads the notes and answers; refused if the run cannot talk."""
    return Conversation(generator, system=SYSTEM, **decoding)


def ask(
    index: Index, conversation: Conversation, question: str, *, top: int = 3, least: float = 0.3
) -> Grounded:
    """Answer a question from the lines of an index.

    least: the smallest cosine that a line is used with. Where the context has no room for all
    lines, the farthest are left out.
    """
    (hits,) = index.search([question], top=top, name="the question")
    used = [hit for hit in hits if hit.score >= least]
    while used:
        prompt = with_notes(question, used)
        try:
            conversation.prompt(prompt)
        except UserError:
            if len(used) == 1:
                raise
            used.pop()
            continue
        return Grounded(used, hits[0].score, prompt, conversation.answer(prompt))
    return Grounded([], hits[0].score, "", iter(()))


def with_notes(question: str, hits: Sequence[Hit]) -> str:
    """The message: numbered notes, then the question."""
    notes = "\n".join(f"[{number}] {hit.text.strip()}" for number, hit in enumerate(hits, start=1))
    return f"Notes:\n{notes}\n\nQuestion: {question}"
