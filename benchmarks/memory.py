"""Peak memory of reading, tokenizing and batching a training file, from small to large.

python -m benchmarks.memory                       (30 thousand, 1 million and 10 million lines)
python -m benchmarks.memory --lines 30000 300000
python -m benchmarks.memory --text 10 100 1000    (one text of so many MB, for a language model)

Parallel files are generated into a temporary folder. A separate process learns a tokenizer from
them, writes the token ids to disk, and makes the batches of a window or more. The table shows its
peak resident set size, including mapped pages.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.interleave import print_table

LINES = [30_000, 1_000_000, 10_000_000]
BATCHES = 3_000


def generate(folder: Path, lines: int) -> None:
    """Sentences of 4 to 20 words, the same words in both languages' spelling.

    New words keep occurring, as in a language: the frequency of a word falls with its number to the
    power of 1.8, so that the vocabulary grows with about the square root of the text.
    """
    random = np.random.default_rng(lines)
    with (folder / "train.en").open("w") as source, (folder / "train.de").open("w") as target:
        for _ in range(lines):
            numbers = 1_000 * ((1 - random.random(random.integers(4, 21))) ** -1.25 - 1)
            sentence = [f"w{number:x}" for number in numbers.astype(int).tolist()]
            source.write(" ".join(sentence) + "\n")
            target.write(" ".join(word[::-1] for word in sentence) + "\n")


def work(folder: Path) -> None:
    """What training does apart from the model."""
    from regard import config
    from regard.tasks.translate import Translate

    (folder / "small.en").write_text("a\n")
    (folder / "small.de").write_text("b\n")
    settings = [
        f"data.directory={folder}",
        "data.train=train",
        "data.source=en",
        "data.target=de",
        "data.valid=small",
        "data.test=small",
        "data.max_length=200",
        "tokenizer.kind=bpe",
        "tokenizer.vocab_size=4000",
        "train.batch_tokens=2048",
    ]
    task = Translate.learn(config.load("sort", settings))
    task.check_data()
    made = sum(1 for _ in islice(task.batches().epoch(0), BATCHES))
    print(f"{len(task.examples('train'))} {made}")


def generate_text(folder: Path, megabytes: int) -> None:
    """A text of lines of such words; it is the same megabyte again and again with other numbers."""
    random = np.random.default_rng(megabytes)
    with (folder / "train.txt").open("w") as file:
        for _ in range(megabytes):
            numbers = (1_000 * ((1 - random.random(180_000)) ** -1.25 - 1)).astype(int)
            words = [f"w{number:x}" for number in numbers.tolist()]
            lines = (" ".join(words[at : at + 12]) for at in range(0, len(words), 12))
            file.write("\n".join(lines)[: 10**6 - 1] + "\n")


def work_on_text(folder: Path) -> None:
    """What training a language model does apart from the model."""
    from regard import config
    from regard.tasks import LanguageModelling

    (folder / "small.txt").write_text("w1 w2\n")
    settings = [
        f"data.directory={folder}",
        "data.train=train.txt",
        "data.valid=small.txt",
        "data.test=small.txt",
        "data.held_out=0",
        "tokenizer.kind=bytes",
        "tokenizer.vocab_size=4000",
    ]
    task = LanguageModelling.learn(config.load("shakespeare", settings))
    task.check_data()
    made = sum(1 for _ in islice(task.batches().epoch(0), BATCHES))
    print(f"{len(task.text('train').ids())} {made}")


def measure(size: int, *, text: bool) -> tuple[float, float]:
    """Peak memory in MB, and seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (generate_text if text else generate)(folder, size)
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.memory", "--work", name],
            env=os.environ | {"REGARD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"reading {size:,} {'MB' if text else 'lines'} failed")
        return usage.ru_maxrss / 1024, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=LINES)
    parser.add_argument("--text", type=int, nargs="+", help="megabytes of one text instead")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        (work_on_text if (options.work / "train.txt").exists() else work)(options.work)
        return
    rows, small = [], 0.0
    for size in options.text or options.lines:
        peak, seconds = measure(size, text=bool(options.text))
        small = small or peak
        rows.append([f"{size:,}", f"{peak:,.0f}", f"{peak - small:+,.0f}", f"{seconds:,.0f}"])
        print(*rows[-1], flush=True)
    print_table(
        ["MB" if options.text else "lines", "peak memory, MB", "beside the smallest", "seconds"],
        rows,
    )


if __name__ == "__main__":
    main()
