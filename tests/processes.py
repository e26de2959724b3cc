"""Ranks as processes: forks of this one, which has imported torch already."""

import contextlib
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # what making an optimiser imports: here, and not in every fork
import torch.distributed as dist
import torch.distributed.fsdp  # what sharding imports

import regard.commands.ranks
import regard.runs.trainer  # noqa: F401
from regard import look
from regard.commands.app import main
from regard.system.ranks import ProcessGroup, World
from tests.command import Result

SECONDS = 120
"""How long ranks may take together."""
FORK = multiprocessing.get_context("fork")


def on_processes(size: int, work: Callable[[World], Any]) -> list[Any]:
    """What each of some ranks, joined by gloo, comes to."""
    with tempfile.TemporaryDirectory() as folder:
        ends = [FORK.Pipe(duplex=False) for _ in range(size)]
        children = [
            FORK.Process(target=_rank, args=(rank, size, folder, work, sender), daemon=True)
            for rank, (_, sender) in enumerate(ends)
        ]
        for child in children:
            child.start()
        results = []
        for receiver, _ in ends:
            assert receiver.poll(SECONDS), "a rank hangs"
            fault, result = receiver.recv()
            assert fault is None, fault
            results.append(result)
        for child in children:
            child.join(SECONDS)
        return results


def _rank(rank: int, size: int, folder: str, work: Callable[[World], Any], sender: Any) -> None:
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size
        )
        result = work(ProcessGroup(rank, size, size))
        dist.barrier()
        dist.destroy_process_group()
        sender.send((None, result))
    except BaseException:
        sender.send((traceback.format_exc(), None))


class Launcher:
    """Starts commands as torchrun does, with its environment and its store, and without its start.

    It does not end ranks when another has died.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def start(self, size: int, *arguments: str, **more: str) -> "list[Started]":
        """`regard ARGUMENTS` in each of some ranks; more: variables of the environment."""
        return [Started(self, rank, size, arguments, more) for rank in range(size)]

    def run(self, size: int, *arguments: str, **more: str) -> list[Result]:
        """The same, to their ends."""
        return [started.end() for started in self.start(size, *arguments, **more)]


class Started:
    """One rank of a command."""

    def __init__(
        self,
        launcher: Launcher,
        rank: int,
        size: int,
        arguments: tuple[str, ...],
        more: dict[str, str],
    ) -> None:
        self.output = [launcher.folder / f"{rank}-{name}.txt" for name in ("stdout", "stderr")]
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(launcher.store.port),
            "TORCHELASTIC_RUN_ID": "test",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_ERROR_FILE": str(launcher.folder / f"{rank}-error.json"),
        }
        self.child = FORK.Process(
            target=_command, args=(launcher.folder, self.output, environment | more, arguments)
        )
        self.child.start()

    def end(self) -> Result:
        """What came of it."""
        self.child.join(SECONDS)
        assert self.child.exitcode is not None, "the command hangs"
        return Result(self.child.exitcode, *(path.read_text() for path in self.output))


def _command(
    folder: Path, output: list[Path], environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    """In the fork: its own streams, folder and environment, and the command."""
    for number, path in enumerate(output, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    os.environ.update(environment)
    os.chdir(folder)
    look.draw = lambda run: []
    sys.argv = ["regard", *arguments]
    code = 1
    with contextlib.suppress(Exception):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
