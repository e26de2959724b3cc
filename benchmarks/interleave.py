"""A against B on a noisy machine: each in its own process, taking turns, compared as ratios.

A contestant prepares itself, then works at every request and replies with how much it did. While
one works, the others wait, so that noise affects all alike; and none shares an allocator or a
thread pool with another.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.system.waiting import CHOSEN_BY_USER

Work = Callable[[], tuple[float, float]]
"""Does one share of work: returns its seconds, and the amount (tokens, sentences)."""


class Contestant:
    """A process that works on request.

    checkout: another copy of the project, whose `regard` the script is run with.
    environment: how this contestant's threads wait, instead of the benchmarks' policy.
    """

    def __init__(
        self,
        script: str,
        name: str,
        *arguments: object,
        checkout: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        own = os.environ if environment is None else _without_policy() | environment
        here = Path(__file__).parent.parent
        program = ["-m", f"benchmarks.{Path(script).stem}"] if checkout is None else [script]
        root = str(here if checkout is None else checkout.resolve())
        self._process = subprocess.Popen(
            [sys.executable, *program, "--contestant", name, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=own | {"PYTHONPATH": root},
        )
        self.facts = self._read()
        self.speeds: list[float] = []
        self.peak = 0.0
        """The most memory that it had, in MB; known when it is closed."""

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} died")
        return json.loads(line)

    def request(self) -> Any:
        """Do one share; what it replies."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._read()

    def work(self, *, counted: bool = True) -> None:
        """Do one share; its speed is recorded, unless it is a warm-up."""
        seconds, amount = self.request()
        if counted:
            self.speeds.append(amount / seconds)

    @property
    def speed(self) -> float:
        """The median speed, in amount per second."""
        return statistics.median(self.speeds)

    def close(self) -> None:
        self.peak = peak_memory(self._process.pid)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _without_policy() -> dict[str, str]:
    """The environment without a policy of how threads wait."""
    return {name: value for name, value in os.environ.items() if name not in CHOSEN_BY_USER}


def peak_memory(process: int) -> float:
    """The largest resident set of a process so far, in MB; 0 if the system does not report it."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    sizes = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(sizes[0]) / 1024 if sizes else 0.0


def take_turns(contestants: list[Contestant], *, rounds: int, warm_up: int = 1) -> None:
    """Run all contestants in turn, round after round."""
    for number in range(warm_up + rounds):
        for contestant in contestants:
            contestant.work(counted=number >= warm_up)
    for contestant in contestants:
        contestant.close()


def ratio(one: Contestant, other: Contestant) -> float:
    """How many times faster: the median over rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(one.speeds, other.speeds, strict=True))


def serve(work: Work, facts: dict[str, Any] | None = None) -> None:
    """Run as a contestant: work once per line of standard input."""
    print(json.dumps(facts or {}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(work()), flush=True)


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """A table in Markdown, as in docs/benchmarks.md."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
