"""Runs commands one after another, each in a fork of a process that has imported torch already.

    python -m tests.forks < COMMANDS

COMMANDS are lines of JSON: ["bash", a line of it] or ["python", a program]. What is plainly a call
of regard needs no shell, and no seconds of importing either; the rest gets a shell. It ends with
the first command that fails.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NoReturn


def run_here(language: str, text: str) -> NoReturn:
    """In the fork: the command, and the end of the process."""
    try:
        if language == "python":
            exec(compile(text, "document", "exec"), {"__name__": "__main__"})
        else:
            from regard.commands.app import main

            sys.argv = shlex.split(text)
            main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        os._exit(_flushed(1 if isinstance(end.code, str) else end.code or 0))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(_flushed(1))
    os._exit(_flushed(0))


def _flushed(code: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def run_ranks(text: str) -> int:
    """`torchrun OPTIONS -m regard ARGUMENTS`: torchrun's own parser, and forks as its processes."""
    from torch.distributed.run import parse_args

    from tests.processes import Launcher

    options = parse_args(shlex.split(text)[1:])
    launcher = Launcher(Path.cwd())
    results = launcher.run(int(options.nproc_per_node), *options.training_script_args)
    for result in results:
        print(result.err, file=sys.stderr)
    return max(result.code for result in results)


def run(language: str, text: str) -> int:
    if language == "bash" and text.startswith("torchrun "):
        return run_ranks(text)
    if language == "bash" and not re.fullmatch(r"regard [^|<>&;$*\\`]*", text):
        return subprocess.run(["bash", "-c", text], stdin=subprocess.DEVNULL).returncode
    child = os.fork()
    if child == 0:
        run_here(language, text)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    import torch._dynamo  # what making an optimiser imports

    import regard.look
    import regard.runs.trainer

    torch.set_num_threads(1)
    regard.look.draw = lambda run: []  # pictures have tests of their own, and take long to draw
    for line in sys.stdin.readlines():
        language, text = json.loads(line)
        code = run(language, text)
        if code:
            sys.exit(f"exit code {code}:\n{text}")


if __name__ == "__main__":
    main()
