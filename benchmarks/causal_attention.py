"""Memory and time of one causal attention layer, with is_causal and with a mask of T × T.

    python -m benchmarks.causal_attention            (about a minute)

Each length is measured both ways, each in its own process: the most memory that one forward pass
adds, and the best time of a few. With is_causal memory grows with T, with a mask with T². The
outputs of both are compared at the shortest length.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

from regard.nn import SelfAttention, causal_mask

LENGTHS = (1_024, 2_048, 4_096, 8_192, 16_384)
D_MODEL, HEADS, PASSES = 64, 2, 3
WAYS = {"is_causal": "is_causal=True", "mask": "a mask of T × T"}


def resident_bytes() -> int:
    """The memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


class Peak:
    """The most memory held while a `with` block runs, above what was held before it."""

    def __enter__(self) -> "Peak":
        self.before = self.most = resident_bytes()
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.001):
            self.most = max(self.most, resident_bytes())

    def __exit__(self, *error: object) -> None:
        self.most = max(self.most, resident_bytes())
        self._done.set()
        self._watch.join()

    @property
    def megabytes(self) -> float:
        return (self.most - self.before) / 1e6


@torch.inference_mode()
def output(way: str, length: int) -> torch.Tensor:
    """One layer over one sequence; the mask is built here, as a model would for every batch."""
    torch.manual_seed(0)
    attention = SelfAttention(D_MODEL, HEADS).eval()
    x = torch.randn(1, length, D_MODEL)
    if way == "is_causal":
        return attention(x, is_causal=True)
    return attention(x, mask=causal_mask(length))


def measure(way: str, length: int) -> dict[str, float]:
    """Megabytes that the first pass adds, and the seconds of the fastest pass."""
    output(way, 64)  # libraries are loaded now, not while memory is watched
    seconds = []
    with Peak() as peak:
        for _ in range(PASSES):
            began = time.perf_counter()
            output(way, length)
            seconds.append(time.perf_counter() - began)
    return {"megabytes": peak.megabytes, "seconds": min(seconds)}


def in_a_process(way: str, length: int) -> dict[str, float]:
    """`measure` in its own process, whose memory nothing else has used."""
    command = [sys.executable, "-m", "benchmarks.causal_attention", "--only", way, str(length)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="lengths T")
    parser.add_argument("--only", nargs=2, metavar=("WAY", "T"), help="one measurement, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only:
        print(json.dumps(measure(options.only[0], int(options.only[1]))))
        return
    apart = (output("is_causal", LENGTHS[0]) - output("mask", LENGTHS[0])).abs().max().item()
    print(f"width {D_MODEL}, {HEADS} heads, one thread; outputs differ by at most {apart:.1e}\n")
    print(f"{'T':>7}" + "".join(f"{label:>32}" for label in WAYS.values()))
    for length in options.lengths:
        row = [in_a_process(way, length) for way in WAYS]
        cells = (f"{cell['megabytes']:16.1f} MB {cell['seconds']:10.3f} s" for cell in row)
        print(f"{length:7,}" + "".join(f"{cell:>32}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
