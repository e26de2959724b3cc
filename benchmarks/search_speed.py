"""Exact search over many vectors: queries per second beside numpy and usearch, interleaved.

    python -m benchmarks.search_speed                  1,000,000 × 384, one query at a time
    python -m benchmarks.search_speed --queries 64
    python -m benchmarks.search_speed --vectors 2000 --rounds 1

The vectors are random, of length 1, and mapped from disk, as in an index. An exact search reads all
of them for every batch of queries: bytes read per second, over the bandwidth of memory that summing
a large array shows here, is the share of bandwidth. recall@10 is against numpy.
"""

import argparse
import importlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.interleave import Contestant, print_table, ratio, serve, take_turns
from regard.nn.int8 import round_rows
from regard.search import exact

NAMES = {"numpy": "numpy", "usearch": "usearch, exact", "regard": "Regard", "int8": "Regard, int8"}
TOP = 10
ROWS = 50_000
Find = Callable[[np.ndarray], Any]


def write(folder: Path, vectors: int, width: int) -> None:
    """Random vectors, and the same in 8 bits."""
    random = np.random.default_rng(1)
    path = folder / "vectors.npy"
    floats = np.lib.format.open_memmap(path, "w+", np.float32, (vectors, width))
    shape = (vectors, width)
    integers = np.lib.format.open_memmap(folder / "int8.npy", "w+", np.int8, shape)
    scales = np.empty(vectors, dtype=np.float32)
    for begin in range(0, vectors, ROWS):
        rows = random.standard_normal(floats[begin : begin + ROWS].shape, dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rounded, of_rows = round_rows(torch.from_numpy(rows))
        floats[begin : begin + ROWS], integers[begin : begin + ROWS] = rows, rounded.numpy()
        scales[begin : begin + ROWS] = of_rows[:, 0].numpy()
    np.save(folder / "scales.npy", scales)


def finder(name: str, folder: Path) -> Find:
    """A contestant's way from queries to the rows that are nearest."""
    floats = np.load(folder / "vectors.npy", mmap_mode="c")
    if name == "numpy":

        def by_numpy(queries: np.ndarray) -> np.ndarray:
            scores = queries @ floats.T
            top = np.argpartition(-scores, TOP - 1, axis=1)[:, :TOP]
            order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1)
            return np.take_along_axis(top, order, axis=1)

        return by_numpy
    if name == "usearch":
        usearch = importlib.import_module("usearch.index")

        def by_usearch(queries: np.ndarray) -> np.ndarray:
            found: Any = usearch.search(floats, queries, TOP, metric="ip", exact=True)
            return np.asarray(found.keys).reshape(len(queries), TOP)

        return by_usearch
    if name == "int8":
        integers, scales = (
            np.load(folder / f"{part}.npy", mmap_mode="c") for part in ("int8", "scales")
        )
        return lambda queries: exact.search(queries, integers, top=TOP, scales=scales)[1].numpy()
    return lambda queries: exact.search(queries, floats, top=TOP)[1].numpy()


def queries_of(count: int, width: int) -> np.ndarray:
    queries = np.random.default_rng(2).standard_normal((count, width), dtype=np.float32)
    return np.asarray(queries / np.linalg.norm(queries, axis=1, keepdims=True))


def contest(name: str, folder: Path, queries: np.ndarray, threads: int) -> None:
    """Search for all queries at once, at every request."""
    torch.set_num_threads(threads)
    find = finder(name, folder)
    np.save(folder / f"found-{name}.npy", find(queries))

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        find(queries)
        return time.perf_counter() - began, len(queries)

    serve(work)


def bandwidth() -> float:
    """Bytes per second that are read when a large array is summed, the best of some times."""
    array = torch.ones(2**26)  # 256 MB
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        array.sum()
        best = max(best, 4 * array.numel() / (time.perf_counter() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1, help="searched for at once")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        queries = queries_of(options.queries, options.width)
        contest(options.contestant, options.folder, queries, options.threads)
        return
    chosen = list(NAMES)
    if importlib.util.find_spec("usearch") is None:
        print("usearch is not installed, and is left out.", file=sys.stderr)
        chosen.remove("usearch")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.vectors, options.width)
        extra: list[object] = []
        for key in ("vectors", "width", "queries", "threads"):
            extra += [f"--{key}", getattr(options, key)]
        contestants = [Contestant(__file__, name, *extra, "--folder", folder) for name in chosen]
        take_turns(contestants, rounds=options.rounds)
        exact_rows = np.load(Path(folder) / "found-numpy.npy")
        most, rows = bandwidth(), []
        for one in contestants:
            found = np.load(Path(folder) / f"found-{one.name}.npy").astype(np.int64)
            recall = exact.recall(torch.from_numpy(found), torch.from_numpy(exact_rows))
            size = 1 if one.name == "int8" else 4
            read = options.vectors * options.width * size * one.speed / options.queries
            rows.append(
                [
                    NAMES[one.name],
                    f"{one.speed:.2f}",
                    f"{ratio(one, contestants[0]):.2f}×",
                    f"{read / most:.0%}",
                    f"{recall:.3f}",
                ]
            )
    print_table(["search", "queries/s", "/ numpy", "share of bandwidth", "recall@10"], rows)
    print(f"\nMemory is read at up to {most / 1e9:.1f} GB/s here.")


if __name__ == "__main__":
    main()
