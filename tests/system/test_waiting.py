"""How threads wait follows how busy the machine is, and a person's own choice stands."""

import os
import subprocess
import sys
import threading

import pytest

from regard.system.waiting import CHOSEN_BY_USER, Waited, Watch, adapt_waiting


class Team:
    """In place of a second team."""

    def __init__(self) -> None:
        self.dismissed = False

    def dismiss(self) -> None:
        self.dismissed = True


def looks(*seconds: tuple[float, float]) -> list[bool]:
    """Whether threads sleep after each look, with so much (queued, stolen) time before it."""
    total, readings = Waited(0, 0), [Waited(0, 0)]
    for queued, stolen in seconds:
        total = Waited(total.queued + queued, total.stolen + stolen)
        readings.append(total)
    upcoming = iter(readings)
    watch = Watch(lambda: next(upcoming), Team, every=1.0)  # type: ignore[arg-type]
    asleep = []
    for _ in seconds:
        watch.look()
        asleep.append(watch.asleep)
    return asleep


def test_threads_sleep_once_they_have_waited_for_cores_twice() -> None:
    assert looks((0, 0), (0.9, 0), (0.9, 0), (0.9, 0)) == [False, False, True, True]
    assert looks((0.9, 0), (0, 0), (0.9, 0), (0, 0)) == [False] * 4


def test_threads_spin_again_after_a_while_of_quiet() -> None:
    assert looks(*[(0.9, 0)] * 2, *[(0, 0)] * 7, (0.9, 0)) == [False, *[True] * 9]
    assert looks(*[(0.9, 0)] * 2, *[(0, 0)] * 8) == [False, *[True] * 8, False]


def test_what_the_host_takes_counts_only_while_they_spin() -> None:
    assert looks(*[(0, 0.9)] * 2, *[(0, 0.9)] * 8) == [False, *[True] * 8, False]


def test_without_libgomp_nothing_changes() -> None:
    readings = iter([Waited(0, 0), Waited(1, 0), Waited(2, 0), Waited(3, 0)])
    watch = Watch(lambda: next(readings), lambda: None, every=1.0)
    for _ in range(3):
        watch.look()
    assert not watch.asleep


def test_a_second_team_keeps_threads_from_spinning() -> None:
    """CPU time, which does not depend on what else the machine does: 40 ms of it in 20 pauses."""
    program = """
import time, torch
from regard.system.waiting import SecondTeam
x = torch.zeros(200_000)

def spent() -> float:
    before = time.process_time()
    for _ in range(20):
        x.add_(1)  # two threads, and then a pause in which one of them may spin
        time.sleep(0.002)
    return time.process_time() - before

torch.set_num_threads(2)
spent()
spinning = min(spent() for _ in range(3))
team = SecondTeam.start_if_possible()
if team is None:
    print("no libgomp")
    raise SystemExit
time.sleep(0.2)
asleep = min(spent() for _ in range(3))
team.dismiss()
team.join()
time.sleep(0.2)
again = min(spent() for _ in range(3))
print(spinning, asleep, again)
assert asleep < 0.6 * spinning and asleep < 0.6 * again, (spinning, asleep, again)
"""
    own = {name: value for name, value in os.environ.items() if name not in CHOSEN_BY_USER}
    own["OMP_NUM_THREADS"] = str(os.cpu_count())
    subprocess.run([sys.executable, "-c", program], env=own, check=True, timeout=120)


def watches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if isinstance(thread, Watch)]


@pytest.mark.parametrize("name", CHOSEN_BY_USER)
def test_a_choice_of_the_user_is_left_alone(name: str) -> None:
    program = (
        "import threading\n"
        "from regard.system.waiting import adapt_waiting\n"
        "adapt_waiting()\n"
        "print(threading.active_count())\n"
    )
    own = {key: value for key, value in os.environ.items() if key not in CHOSEN_BY_USER}
    for environment, threads in ((own, 2), (own | {name: "1"}, 1)):
        result = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True
        )
        assert int(result.stdout) == threads


def test_tests_and_benchmarks_are_watched_once() -> None:
    import benchmarks  # noqa: F401

    adapt_waiting()
    assert len(watches()) == 1
