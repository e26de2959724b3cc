"""Runs cases by their seeds, counts how they ended, and names those that found a fault."""

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.fuzz.cases import KINDS
from tests.fuzz.workshop import Workshop, build, seeded

KEPT = Path(__file__).parent / "seeds.txt"
"""Cases that found a fault once, KIND:SEED a line: they are always run."""


def chosen(count: int, first: int) -> Iterator[tuple[str, int]]:
    """So many cases, of every kind by its share; the same ones for the same first seed."""
    shares = [share for _, share in KINDS.values()]
    kinds = random.Random(first).choices(list(KINDS), shares, k=count)
    return ((kind, first + number) for number, kind in enumerate(kinds))


def kept() -> list[tuple[str, int]]:
    lines = [line.partition("#")[0].strip() for line in KEPT.read_text().splitlines()]
    return [(kind, int(seed)) for kind, _, seed in (line.partition(":") for line in lines) if kind]


def prepare() -> None:
    """Import what a command imports, so that a fork need not."""
    import datasets  # noqa: F401
    import torch._dynamo

    import regard.look
    import regard.runs.trainer

    torch.set_num_threads(1)
    regard.look.draw = lambda run: []


def try_case(case: tuple[str, int], shop: Workshop, keep: Path | None = None) -> str | None:
    """What was wrong, if anything was. keep: a folder to leave its files in."""
    kind, seed = case
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-{seed}-", dir=shop.folder.parent))
    try:
        return KINDS[kind][0](seeded(kind, seed), shop, folder)
    finally:
        if keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True, symlinks=True)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Try wrong commands, damaged files and kills.",
    )
    parser.add_argument("--cases", type=int, default=10_000, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=120, help="start no case after this long")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side")
    parser.add_argument("--only", metavar="KIND:SEED", help="one case, with all that it printed")
    given = parser.parse_args()
    prepare()
    with tempfile.TemporaryDirectory(prefix="regard-fuzz-") as folder:
        shop = build(Path(folder) / "shop")
        if given.only:
            kind, _, seed = given.only.partition(":")
            place = Path(tempfile.mkdtemp(prefix="regard-case-"))
            print(try_case((kind, int(seed)), shop, keep=place) or "nothing wrong")
            print(f"{place}:\n{(place / 'stderr').read_text(errors='replace')}")
            return
        cases = [*kept(), *chosen(given.cases, given.seed)]
        sys.exit(try_all(cases, shop, jobs=given.jobs, minutes=given.minutes))


def try_all(cases: list[tuple[str, int]], shop: Workshop, *, jobs: int, minutes: float) -> int:
    """Try all of them and print what was found; how many had a fault."""
    began, done, faults = time.monotonic(), Counter[str](), []
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = {pool.submit(try_case, case, shop): case for case in cases}
        for future, (kind, seed) in waiting.items():
            if time.monotonic() - began > 60 * minutes:
                pool.shutdown(cancel_futures=True)
                print(f"stopped after {minutes:g} minutes")
                break
            fault = future.result()
            done[kind] += 1
            if fault is not None:
                faults.append(f"{kind}:{seed}")
                print(f"{kind}:{seed}  {fault}", flush=True)
    seconds = time.monotonic() - began
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(done.items()))
    print(f"{done.total():,} cases ({counts}) in {seconds:,.0f} s: {len(faults)} with a fault")
    return len(faults)


if __name__ == "__main__":
    main()
