"""The process that a chat template is rendered in: a program of somebody else, kept apart.

It reads {"template", "variables", "most"} as JSON and prints {"text"} or {"fault"}. The template
sees only its variables, in jinja2's sandbox; time and memory are limited by the system.
"""

import contextlib
import datetime
import json
import sys
from typing import Any, NoReturn

from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

SECONDS = 2
"""Of the processor."""
MEMORY = 1 << 29
"""Bytes of address space."""


class Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox, in which to touch a forbidden attribute is an error and not an empty text."""

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        raise SecurityError(f"it touches the attribute {attribute!r}")


def render(template: str, variables: dict[str, Any], most: int) -> str:
    """The text that a template makes of its variables; at most so many characters."""
    sandbox = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    sandbox.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    pieces, length = [], 0
    for piece in sandbox.from_string(template).generate(**variables):
        length += len(piece)
        if length > most:
            raise TemplateError(f"it makes more than {most:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _refuse(reason: str) -> NoReturn:
    """What a template calls when it cannot render a conversation."""
    raise TemplateError(str(reason))


def _now(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def _limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # where a system has no limits
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def main() -> None:
    """Render what standard input asks for."""
    request = json.load(sys.stdin)
    _limit()
    try:
        answer = {"text": render(request["template"], request["variables"], request["most"])}
    except MemoryError:
        answer = {"fault": "it needs too much memory"}
    except Exception as error:  # whatever a template does wrong
        answer = {"fault": str(error) or type(error).__name__}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
