"""Talking to the person and to other programs, and how a command ends."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

from regard.system.errors import UserError


def tell(text: str) -> None:
    """Print a message to the person, on standard error."""
    if sys.stderr is not None:
        with contextlib.suppress(BrokenPipeError):
            print(text, file=sys.stderr)


def resume_command(arguments: list[str]) -> str:
    """The shell command that continues the training that these arguments began."""
    import shlex

    return shlex.join(["regard", *arguments, *([] if "--resume" in arguments else ["--resume"])])


@contextlib.contextmanager
def progress(total: int | None = None) -> Iterator[None]:
    """A progress bar on standard error, if that is a terminal, from the first outputs on.

    total: how many lines there will be, if they are generated in several chunks.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from regard.tasks.generating import listener

    console = Console(stderr=True)
    bar = Progress(
        MofNCompleteColumn(),
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        redirect_stdout=False,  # outputs go where they were sent, not above the bar
        redirect_stderr=False,
    )
    lines: list[Any] = []

    def advance(done: int, at_a_time: int) -> None:
        if not lines:
            lines.append(bar.add_task("", total=total or at_a_time))
            bar.start()
        bar.advance(lines[0], done)

    before = listener.set(advance)
    try:
        yield
        if lines:  # nothing is generated for empty lines
            bar.update(lines[0], completed=bar.tasks[0].total)
    finally:
        listener.reset(before)
        bar.stop()


def progress_of(file: Path | None) -> contextlib.AbstractContextManager[None]:
    """The same for the lines of a file, unless the outputs go to the screen too."""
    if file is None or not file.is_file() or sys.stdout is None or sys.stdout.isatty():
        return contextlib.nullcontext()
    from regard.data.lines import count_lines

    return progress(count_lines(file))


def print_json(value: dict[str, Any]) -> None:
    """One object on standard output; NaN and infinities become null, for JSON has neither."""
    plain = json.loads(json.dumps(value), parse_constant=lambda name: None)
    print(json.dumps(plain, ensure_ascii=False))


def print_at_once(lines: Iterable[str]) -> None:
    """Print lines and flush them."""
    try:
        for line in lines:
            print(line)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _end_quietly()


def end_well(command: Callable[..., Any]) -> NoReturn:
    """Run a command: the user's mistake, or the system's refusal, is one message and code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    try:
        code = command(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except UserError as error:
        _fail(str(error))
    except BrokenPipeError:
        _end_quietly()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # the parser took it for a failure
            _end_quietly()
        raise
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}.")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # not of the kind that the parser raises
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            raise SystemExit(0) from None
        # The parser's message may have several lines, and a word of its own before the value.
        message = " ".join(error.format_message().split()).replace("Value error, ", "")
        _fail(f"{message.rstrip('.')}. See regard --help.")
    finally:
        if sys.stderr is not None:
            try:
                sys.stderr.flush()
            except BrokenPipeError:  # it was no failure before, and is none at the end
                _write_to_nobody(sys.stderr)
    raise SystemExit(code)


def _end_quietly() -> NoReturn:
    """The reader of our output has gone: nobody is left to tell."""
    _write_to_nobody(sys.stdout)
    raise SystemExit(141)


def _write_to_nobody(stream: TextIO) -> None:
    """What a stream still holds would be written as the process ends, and fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(message: str) -> NoReturn:
    tell(f"regard: {message}")
    raise SystemExit(2)
