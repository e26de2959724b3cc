"""What torchrun says to the processes that it starts, and what they say to it."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.system.engine import Engine
    from regard.system.ranks import World

LONGEST_WAIT = timedelta(hours=2)
"""How long a rank waits for another that works on, such as rank 0 while it learns a tokenizer.

One that has died is noticed at once: its connections are closed, and torchrun ends the others.
"""
SECONDS_FOR_RANK_0 = 10.0
"""How long other ranks leave it to rank 0 to say what went wrong: as a rule, it met the same."""


@dataclass(frozen=True)
class Launch:
    """One process of those that torchrun started."""

    rank: int
    size: int
    local_rank: int
    """Which of the processes of this machine it is."""
    local_size: int
    attempt: int
    """How often torchrun has started all of them again (--max-restarts)."""
    attempts_left: int
    address: str
    port: int
    has_store: bool
    """Whether torchrun itself keeps the store that all ranks can reach, over all attempts."""

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "Launch | None":
        """What the environment says; None where torchrun has not started this process."""
        if "TORCHELASTIC_RUN_ID" not in environment or "RANK" not in environment:
            return None
        attempt = int(environment.get("TORCHELASTIC_RESTART_COUNT", "0"))
        return cls(
            rank=int(environment["RANK"]),
            size=int(environment["WORLD_SIZE"]),
            local_rank=int(environment["LOCAL_RANK"]),
            local_size=int(environment["LOCAL_WORLD_SIZE"]),
            attempt=attempt,
            attempts_left=int(environment.get("TORCHELASTIC_MAX_RESTARTS", "0")) - attempt,
            address=environment["MASTER_ADDR"],
            port=int(environment["MASTER_PORT"]),
            has_store=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        )

    @property
    def command(self) -> str:
        """How the processes of this launch are started, up to the arguments of regard."""
        if self.size == self.local_size:
            return f"torchrun --nproc-per-node {self.size} -m regard"
        return "torchrun … -m regard"

    def own_device(self, engine: "Engine") -> "Engine":
        """The engine of this rank: on a machine with GPUs, each process has one of its own."""
        import torch

        if self.size == 1:
            return engine
        kind = engine.device.type
        if kind not in ("cpu", "cuda"):
            raise UserError(
                f"--device {kind}: several processes can compute on cpu or cuda only. Add "
                f"--device cpu, or train without torchrun."
            )
        if kind == "cpu":
            return engine
        present = torch.cuda.device_count()
        if self.local_size > present:
            raise UserError(
                f"--device cuda: torchrun started {self.local_size} processes where there "
                f"{'is 1 GPU' if present == 1 else f'are {present} GPUs'}. Pass --nproc-per-node "
                f"{present}, or add --device cpu."
            )
        torch.cuda.set_device(self.local_rank)
        return replace(engine, device=torch.device("cuda", self.local_rank))

    @contextlib.contextmanager
    def joined(self, engine: "Engine") -> Iterator["World"]:
        """Within it, the processes can communicate; one alone need not."""
        from regard.system.ranks import ProcessGroup, World, noticing_losses

        if self.size == 1:
            yield World()
            return
        import torch.distributed as dist

        backend = "gloo" if engine.device.type == "cpu" else "cpu:gloo,cuda:nccl"
        place: dict[str, Any] = {}
        if self.has_store:  # in it are the addresses of an earlier attempt too
            store = dist.PrefixStore(  # type: ignore[attr-defined]
                f"regard/ranks/{self.attempt}", self._store(LONGEST_WAIT)
            )
            place = {"store": store, "rank": self.rank, "world_size": self.size}
        with noticing_losses():
            dist.init_process_group(backend, timeout=LONGEST_WAIT, **place)
            yield ProcessGroup(self.rank, self.size, self.local_size)
        dist.destroy_process_group()  # after a failure, others may no longer be there for it

    def divide_threads(self) -> None:
        """Give this rank its part of the machine's cores, unless the person chose a number.

        torchrun sets OMP_NUM_THREADS=1 where it is not set: what the person set stands in the
        environment that torchrun itself was started with.
        """
        import torch

        if self.local_size > 1 and not _is_set_by_person("OMP_NUM_THREADS"):
            torch.set_num_threads(max(1, _cores() // self.local_size))

    def remember(self, name: str, value: str) -> str:
        """What was first remembered under a name, in this attempt or an earlier one."""
        if not self.has_store:
            return value
        return bytes(self._store().compare_set(f"regard/{name}", "", value)).decode()

    def has_said(self, message: str) -> bool:
        """Whether an earlier attempt ended with the same message."""
        attempt, _, said = self.remember("mistake", f"{self.attempt} {message}").partition(" ")
        return said == message and int(attempt) < self.attempt

    def is_first_to_say(self) -> bool:
        """Whether no other rank has said yet why this attempt ends."""
        if not self.has_store:
            return self.rank == 0
        try:
            return self._store().add(f"regard/said/{self.attempt}", 1) == 1
        except RuntimeError:  # torchrun has ended already
            return True

    def _store(self, timeout: timedelta = timedelta(seconds=20)) -> Any:
        """The store of torchrun."""
        import torch.distributed as dist

        return dist.TCPStore(  # type: ignore[attr-defined]
            self.address, self.port, is_master=False, timeout=timeout
        )


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_set_by_person(name: str) -> bool:
    """Whether a variable is in the environment that torchrun, our parent, was started with."""
    if name not in os.environ:
        return False
    try:
        started_with = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except OSError:  # no such system: what is set counts
        return True
    return any(entry.startswith(f"{name}=".encode()) for entry in started_with.split(b"\0"))


def says(message: str) -> bool:
    """Whether this process is to say why it ends: of several ranks, one says it.

    Rank 0 speaks at once. The others give it time, for they all meet what is wrong with a
    configuration or a file; torchrun ends them as soon as rank 0 has ended. Where torchrun starts
    all of them again, they meet it again, and it has been said.
    """
    launch = Launch.read()
    if launch is None or launch.size == 1:
        return True
    if launch.rank:
        time.sleep(SECONDS_FOR_RANK_0)
    if not launch.is_first_to_say():
        return False
    tell_torchrun(message)
    return not launch.has_said(message)


def tell_torchrun(message: str, *, later: int = 0) -> None:
    """Leave a sentence for the summary that torchrun prints when it ends.

    later: seconds to add to its time, for torchrun takes the earliest for the cause.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    info = {"py_callstack": message, "timestamp": str(int(time.time()) + later)}
    with contextlib.suppress(OSError):
        Path(path).write_text(json.dumps({"message": {"message": message, "extraInfo": info}}))
