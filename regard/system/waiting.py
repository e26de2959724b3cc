"""How the threads of one operation wait for each other: spinning, or asleep on a busy machine.

OpenMP's threads meet at a barrier after every parallel operation. Spinning there is the fastest
way on cores of one's own: nobody needs to be woken. On cores that others use too, a spinning
thread waits for one that is not running, and keeps it from running: training slows down by a
factor of three to thirty. benchmarks/busy.py measures both.

So the threads spin, as is libgomp's default, and a watch looks four times per second at how long
they waited for a core. If that is much, it makes a second team of threads that does nothing: with
more threads than cores, libgomp lets none of them spin for long. If it has been little for a while,
the second team is ended. Results do not depend on any of this.
"""

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

CHOSEN_BY_USER = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables by which a person decides it; then nothing is changed."""

LOOK_EVERY = 0.25
"""Seconds between two looks."""
CROWDED = 0.3
"""Seconds of waiting per second, over all threads, from which on the threads should sleep."""
CROWDED_LOOKS, QUIET_LOOKS = 2, 8
"""How many looks in a row, with such waiting or without it, change how threads wait."""

CLOCK_TICKS = 100
"""Per second, in /proc/stat."""


def adapt_waiting() -> None:
    """Watch this process from now on, unless the user has decided how threads wait."""
    if any(name in os.environ for name in CHOSEN_BY_USER) or not Path("/proc/self/task").is_dir():
        return
    with _starting:
        if not any(isinstance(thread, Watch) for thread in threading.enumerate()):
            Watch(waited, SecondTeam.start_if_possible).start()


_starting = threading.Lock()


class Waited(NamedTuple):
    """Seconds in which something of ours could have run, and did not."""

    queued: float
    """Threads of this process were ready, and other processes had the cores."""
    stolen: float
    """The host of a virtual machine gave its cores to others."""


def waited() -> Waited:
    """How long it was until now; 0 where the system does not count it."""
    queued, stolen = 0, 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, IndexError):  # a thread may have ended
            queued += int((task / "schedstat").read_text().split()[1])
    with contextlib.suppress(OSError, IndexError), Path("/proc/stat").open() as file:
        stolen = int(file.readline().split()[8])
    return Waited(queued / 1e9, stolen / CLOCK_TICKS)


class SecondTeam(threading.Thread):
    """A thread with an OpenMP team of its own, all asleep until it is dismissed."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(name="second team", daemon=True)
        self._library = library
        self._dismissed = threading.Event()

    @classmethod
    def start_if_possible(cls) -> "SecondTeam | None":
        """A team, if libgomp is loaded in this process."""
        library = _libgomp()
        if library is None:
            return None
        team = cls(library)
        team.start()
        return team

    def run(self) -> None:
        nothing = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p)  # what each thread does
        size = (os.cpu_count() or 1) + 1  # enough whatever the first team's size is
        self._library.GOMP_parallel(nothing, None, ctypes.c_uint(size), ctypes.c_uint(0))
        self._dismissed.wait()  # the team ends with this thread

    def dismiss(self) -> None:
        """End the team."""
        self._dismissed.set()


def _libgomp() -> ctypes.CDLL | None:
    """The OpenMP library that this process has loaded, if it is GNU's."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
            path = line.split(maxsplit=5)[-1]
            if "libgomp" in Path(path).name:
                return ctypes.CDLL(path)
    return None


class Watch(threading.Thread):
    """Looks at how long threads waited for a core, and decides whether they sleep at barriers."""

    def __init__(
        self,
        waited: Callable[[], Waited],
        start_team: Callable[[], SecondTeam | None],
        *,
        every: float = LOOK_EVERY,
    ) -> None:
        super().__init__(name="waiting", daemon=True)
        self._waited, self._start_team, self._every = waited, start_team, every
        self._last = waited()
        self._team: SecondTeam | None = None
        self._looks = 0  # in a row that speak for a change

    @property
    def asleep(self) -> bool:
        """Whether threads sleep at barriers now."""
        return self._team is not None

    def run(self) -> None:
        while True:
            time.sleep(self._every)
            self.look()

    def look(self) -> None:
        """Compare with the last look, and act on it."""
        now, last = self._waited(), self._last
        seconds = now.queued - last.queued
        if not self.asleep:  # a core that was let go to sleep comes back late: that counts as well
            seconds += now.stolen - last.stolen
        crowded, self._last = seconds > CROWDED * self._every, now
        if crowded == self.asleep:
            self._looks = 0
            return
        self._looks += 1
        if crowded and self._looks >= CROWDED_LOOKS:
            self._team, self._looks = self._start_team(), 0
        elif self._team is not None and self._looks >= QUIET_LOOKS:
            self._team.dismiss()
            self._team, self._looks = None, 0
