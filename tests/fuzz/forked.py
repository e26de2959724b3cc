"""One command in a fork, with limits on its time and memory: what came of it."""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MOST_CPU_SECONDS, MOST_SECONDS = 60, 300.0
"""A command that takes longer hangs: each is a matter of seconds, on a busy machine of a minute."""
MOST_MEMORY = 3 * 2**30
"""Bytes that a command may take beyond what the process had."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    """The exit code; below 0, the signal that ended it."""
    out: bytes
    err: str
    seconds: float
    hung: bool = False


def run(arguments: list[str], folder: Path, *, stdin: bytes = b"", kill_at: int = 0) -> Outcome:
    """`regard ARGUMENTS` in a folder; kill_at: kill it at its so many-th operation on files."""
    (folder / "stdin").write_bytes(stdin)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _run_here(arguments, folder, kill_at)
    hung, status = False, 0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - began > MOST_SECONDS:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            hung = True
            break
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    return Outcome(
        code,
        (folder / "stdout").read_bytes(),
        (folder / "stderr").read_text(encoding="utf-8", errors="replace"),
        time.monotonic() - began,
        hung or code == -signal.SIGXCPU,
    )


def _run_here(arguments: list[str], folder: Path, kill_at: int) -> NoReturn:
    """In the fork: the command, and the end of the process."""
    code = 1
    try:
        os.chdir(folder)
        for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
            flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(name, flags, 0o644), descriptor)
        sys.stdin, sys.stdout, sys.stderr = (
            open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            for descriptor, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        os.environ["REGARD_CACHE"] = str(folder / "cache")
        _limit()
        if kill_at:
            sys.addaudithook(_killer(folder, kill_at))
        from regard.commands.app import main

        sys.argv = ["regard", *arguments]
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        os._exit(code)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS + 10))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


FILE_EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}


def _killer(folder: Path, kill_at: int) -> Callable[[str, tuple[object, ...]], None]:
    """Ends the process before its so many-th operation on a file of the folder's runs."""
    count = 0
    place = str(folder / "runs")

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in FILE_EVENTS or not arguments:
            return
        path = arguments[0]
        if not isinstance(path, str | os.PathLike):
            return
        if not os.path.abspath(os.fspath(path)).startswith(place):
            return
        if event == "open" and arguments[1] in ("r", "rb"):
            return
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook
