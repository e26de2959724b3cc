"""Talking to the person and to other programs, and how a command ends.

Every message passes through `tell`, so that it is one line whatever names and texts are in it.
"""

import contextlib
import functools
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from regard.system.errors import UserError
from regard.system.standard_error import standard_error
from regard.system.torchrun import Launch, says

NOT_SHOWN = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # control characters: they end a line, or move the cursor
    r"\u2028\u2029\u202a-\u202e\u2066-\u2069"  # other line ends; changes of direction
    r"\ud800-\udfff]"  # what Python makes of bytes that are not UTF-8
)


def tell(text: str) -> None:
    """Print a message to the person as one line, on standard error."""
    print(one_line(text), file=standard_error(), flush=True)


def one_line(text: str) -> str:
    """The text with an escape, such as \\n or \\xff, for all that a terminal cannot show in a line.

    File names, class names and the texts of other programs may hold anything.
    """
    return NOT_SHOWN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    byte = code - 0xDC00  # Python marks a byte that is not UTF-8 so
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else match[0].encode("unicode_escape").decode()


def resume_command(arguments: list[str]) -> str:
    """The shell command that continues the training that these arguments began."""
    launch = Launch.read()
    words = [*arguments, *([] if "--resume" in arguments else ["--resume"])]
    return " ".join(["regard" if launch is None else launch.command, *map(_quoted, words)])


def _quoted(word: str) -> str:
    """The word as a shell reads it, in one line."""
    import shlex

    if not NOT_SHOWN.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{one_line(escaped)}'"


@contextlib.contextmanager
def progress(total: int | None = None) -> Iterator[None]:
    """A progress bar on standard error, if that is a terminal, from the first outputs on.

    total: how many lines there will be, if they are generated in several chunks.
    """
    screen = standard_error()
    if not screen.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from regard.tasks.generating import listener

    console = Console(file=cast(TextIO, screen))
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
    if file is None or not file.is_file() or sys.stdout.isatty():
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
        sys.stdout.flush()
    except BrokenPipeError:
        _end_quietly()


def plain_text(text: str) -> str:
    """A generated text with its lines and tabs; other control characters are escaped."""
    return NOT_SHOWN.sub(lambda match: match[0] if match[0] in "\n\t" else _escape(match), text)


def print_pieces(beginning: str, pieces: Iterable[str]) -> None:
    """Print a text and its continuation, each piece as soon as it is there.

    The first piece is waited for: a request that is refused prints nothing before its message.
    """
    try:
        for number, piece in enumerate(pieces):
            print(plain_text(piece if number else beginning + piece), end="", flush=True)
            beginning = ""
        print(plain_text(beginning), flush=True)
    except BrokenPipeError:
        _end_quietly()


class _NoOutput(io.TextIOBase):
    """In place of a standard output that is closed: nothing is printed into nowhere."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        if text:
            refuse_closed_output()
        return 0


def refuse_closed_output() -> None:
    """Refuse to go on if there is no standard output to print to."""
    if isinstance(sys.stdout, _NoOutput):
        raise UserError(
            "there is no standard output: it is closed, and what this command prints would be "
            "lost. Send it to a file, or to /dev/null."
        )


def prints(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose result is what it prints: without standard output it does not begin."""

    @functools.wraps(command)
    def begin(*arguments: Any, **options: Any) -> Any:
        refuse_closed_output()
        return command(*arguments, **options)

    return begin


def _prepare_streams() -> None:
    """Make standard output and error take any text; a closed one is not taken by another file."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # or a library that prints would print into the next file that is opened
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stdout is None:
        sys.stdout = cast(TextIO, _NoOutput())


def end_well(command: Callable[..., Any]) -> NoReturn:
    """Run a command: the user's mistake, or the system's refusal, is one message and code 2.

    Whatever else goes wrong is one message and code 1, and its traceback is kept in a file.
    """
    _prepare_streams()
    try:
        code = _run(command)
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
    except BaseException as error:  # a panic of a library in Rust is no Exception
        if not hasattr(error, "format_message"):  # not of the kind that the parser raises
            from regard.commands.last_resort import keep_and_describe

            _fail(keep_and_describe(error), code=1)
        message = _parsers_message(error)
        stop = "" if message.endswith(("?", "!")) else "."
        _fail(f"{message.rstrip('.')}{stop} See regard --help.")
    finally:
        _flush_or_drop()
    raise SystemExit(code)


def _parsers_message(error: Any) -> str:
    """What the parser says of an option, in one line, with the value that it could not read."""
    # It may have several lines, and a word of its own before the value.
    message: str = " ".join(error.format_message().split()).replace("Value error, ", "")
    if hasattr(error.__cause__, "errors"):  # pydantic's, whose words do not show the value
        from regard.config.faults import expected, shown

        fault = error.__cause__.errors()[0]
        words = expected(fault["type"])
        if words is not None:
            message = message.replace(fault["msg"], f"{shown(fault['input'])}: {words}")
    return message


def _run(command: Callable[..., Any]) -> int:
    """The code that a command ends with; without arguments it prints its help."""
    try:
        return cast(int, command(standalone_mode=False))
    except Exception as error:
        if type(error).__name__ != "NoArgsIsHelpError" or not hasattr(error, "format_message"):
            raise
        print(error.format_message())
        return 0


def _flush_or_drop() -> None:
    """Write what the streams still hold; what they cannot take would fail once more at the end."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:  # said before, if it was a failure
                _write_to_nobody(stream)


def _end_quietly() -> NoReturn:
    """The reader of our output has gone: nobody is left to tell."""
    _write_to_nobody(sys.stdout)
    raise SystemExit(141)


def _write_to_nobody(stream: TextIO) -> None:
    """What a stream still holds would be written as the process ends, and fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(message: str, *, code: int = 2) -> NoReturn:
    if says(message):
        tell(f"regard: {message}")
    raise SystemExit(code)
