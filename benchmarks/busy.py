"""Training speed on busy cores: how OpenMP's threads wait for each other, with other work running.

    python -m benchmarks.busy             (about twenty minutes)

The updates of `benchmarks.train_speed` at a narrow and a wide model, each policy in its own
process, taking turns; alone, and with one and two other processes that compute without a pause.
"""

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator

import torch

from benchmarks.interleave import Contestant, print_table, ratio, serve, take_turns
from benchmarks.train_speed import bucketed_batches, regard
from regard.system.engine import Engine
from regard.system.memory import keep_freed_memory

POLICIES: dict[str, dict[str, str]] = {
    "regard": {},  # spins while the machine is quiet, sleeps while it is not
    "spin (default)": {"GOMP_SPINCOUNT": "300000"},  # what libgomp takes if nothing is set
    "spin 10,000": {"GOMP_SPINCOUNT": "10000"},
    "spin 1,000": {"GOMP_SPINCOUNT": "1000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"},
}
UPDATES = {64: 16, 256: 5}
"""Updates per turn, by width: some seconds, for the policy that adapts to be in step."""
MOST_SECONDS = 3_600
"""A busy process ends by itself after this long, even if this process was killed."""


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Within this context, this many processes compute without a pause."""
    program = f"import time\nend = time.time() + {MOST_SECONDS}\nwhile time.time() < end: pass"
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def contestant(width: int) -> None:
    keep_freed_memory()
    torch.manual_seed(0)
    batches = bucketed_batches(None)
    serve(regard(width, UPDATES[width], batches=batches, engine=Engine()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256], choices=UPDATES)
    parser.add_argument("--beside", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.widths[0])
        return
    rows = []
    for width in options.widths:
        alone: dict[str, float] = {}
        for count in options.beside:
            with busy(count):
                contestants = {
                    name: Contestant(__file__, name, "--widths", width, environment=policy)
                    for name, policy in POLICIES.items()
                }
                take_turns(list(contestants.values()), rounds=options.rounds, warm_up=1)
            default = contestants["spin (default)"]
            for name, one in contestants.items():
                alone.setdefault(name, one.speed)
                rows.append(
                    [
                        str(width),
                        str(count),
                        name,
                        f"{one.speed:,.0f}",
                        f"{min(one.speeds):,.0f}",
                        f"{ratio(one, default):.2f}×",
                        f"{one.speed / alone[name]:.2f}×",
                    ]
                )
            print(f"width {width} beside {count} done", file=sys.stderr, flush=True)
    print_table(
        [
            "width",
            "busy processes beside it",
            "policy",
            "tokens/s, median",
            "tokens/s, slowest turn",
            "beside the default",
            "of its speed alone",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
