"""regard chat: a conversation in the terminal."""

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands import options
from regard.commands.decoding_options import given_options
from regard.commands.opening import open_run
from regard.commands.terminal import NOT_SHOWN, print_at_once, tell
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.runs.chat import Conversation


def chat(
    run: options.RunPath,
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the model is told to be.", callback=options.utf8),
    ] = None,
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
) -> None:
    """Talk to a model that was trained on conversations.

    Answers appear as they are generated. Ctrl-C stops an answer, Ctrl-D ends. One line is one
    message, from a file or another program too.

    For example: regard chat runs/smollm2 --temperature 0.7
    """
    from regard.runs.chat import Conversation

    opened = open_run(run, device=device, quantize=quantize)
    conversation = Conversation(opened, system=system, **given_options())
    if sys.stdin is None:
        raise UserError("standard input is closed: there is nothing to answer.")
    typed = sys.stdin.isatty()
    if typed:
        tell("Type a message; Ctrl-C stops an answer, Ctrl-D ends.")
    for line in _typed_lines() if typed else _piped_lines():
        if not line.strip():
            continue
        try:
            _answer(conversation, line)
        except UserError as error:
            if not typed:
                raise
            tell(str(error))


def _answer(conversation: "Conversation", line: str) -> None:
    """Print an answer as it is generated, and what was forgotten for it."""
    before = conversation.dropped
    answer = conversation.answer(line)
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(answer):
        for piece in answer:
            print(shown(piece), end="", flush=True)
    print_at_once([""])
    if conversation.dropped > before:
        tell(f"The context is full: the first {conversation.dropped} messages are no longer read.")


def shown(text: str) -> str:
    """The text without what would move the cursor; line ends and tabs stay."""
    return re.sub(r"[^\n\t]", lambda match: NOT_SHOWN.sub("", match[0]), text)


def _typed_lines() -> Iterator[str]:
    """The lines that a person types; Ctrl-C begins a new one, Ctrl-D ends."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (input() then has a line editor)
    while True:
        try:
            yield input("> ")
        except KeyboardInterrupt:
            print()
        except EOFError:
            print()
            return


def _piped_lines() -> Iterator[str]:
    """The lines of another program, each as it arrives; what is not UTF-8 is refused."""
    from regard.commands.input_lines import arriving
    from regard.data.lines import why_unreadable

    number = 0
    for name, lines in arriving(None):
        for line in lines:
            number += 1
            fault = why_unreadable(line)
            if fault is not None:
                raise UserError(f"{name}:{number}: {fault}.")
            yield line
