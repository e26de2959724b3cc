"""Perplexity of SmolLM2-135M on WikiText-2: float32, int8, and transformers on the same tokens.

    python -m benchmarks.perplexity --data DIR           (about ten minutes)
    python -m benchmarks.perplexity --data DIR --run runs/mine --tokens 8192

DIR has test.txt, as for the recipe wikitext2. The text is read in blocks of --context tokens, each
by itself; its first token is read and not predicted. Every side gets the same blocks, so that
differences are those of precision. transformers reads the folder that `regard export --to hf` makes
of the run. How fast a side reads is shown for scale; it is no benchmark of generation.

llama.cpp is not here: its server gives no probabilities of a prompt. Its weights are those of the
run, which are dequantised from the same file; what it rounds beside them is not measured.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.interleave import print_table
from regard.data.lines import read_text

Logits = Callable[[Tensor], Tensor]
"""Token ids (1 × L) -> logits (1 × L × V)."""


def ours(run: Path, *, quantize: str | None = None) -> Logits:
    import regard

    model = regard.load(run, quantize=quantize).model
    return lambda tokens: model(tokens)


def transformers(run: Path, folder: Path) -> Logits:
    """The same weights, exported and opened by transformers."""
    from transformers import AutoModelForCausalLM

    _regard("export", run, "--to", "hf", "--out", folder / "hf")
    model: Any = AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32)
    model.eval()
    return lambda tokens: model(tokens).logits


def _regard(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "regard", *map(str, words)], check=True)


def token_ids(run: Path, data: Path, *, most: int) -> list[int]:
    """The first tokens of the test text, line breaks included, as the run's tokenizer reads it."""
    import regard

    compressed = data / "test.txt.gz"
    lines = read_text(compressed if compressed.exists() else data / "test.txt")
    (ids,) = regard.load(run).task.tokenizer.encode(["\n".join(lines)])
    return ids[:most]


def blocks(ids: list[int], context: int) -> Iterator[Tensor]:
    """All tokens in blocks of `context`, the last one shorter."""
    for at in range(0, len(ids) - 1, context):
        yield torch.tensor([ids[at : at + context]])


@torch.inference_mode()
def measure(logits: Logits, ids: list[int], context: int) -> tuple[float, float]:
    """exp(mean −log p) over every predicted token, and tokens read per second."""
    total, count, began = 0.0, 0, time.perf_counter()
    for block in blocks(ids, context):
        scores = logits(block)[0, :-1].float()
        total += F.cross_entropy(scores, block[0, 1:], reduction="sum").item()
        count += block.size(1) - 1
    return math.exp(total / count), len(ids) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with test.txt")
    parser.add_argument("--run", type=Path, help="a run [SmolLM2, as pip installs it]")
    parser.add_argument("--context", type=int, default=1024, help="tokens per block")
    parser.add_argument("--tokens", type=int, default=65_536, help="how many to read at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, run = Path(name), options.run
        if run is None:
            run = folder / "smollm2"
            _regard("import", "smollm2", "--out", run)
        ids = token_ids(run, options.data, most=options.tokens)
        print(f"{len(ids):,} tokens in blocks of {options.context:,}\n", flush=True)
        sides: dict[str, Callable[[], Logits]] = {
            "Regard, float32": lambda: ours(run),
            "Regard, int8": lambda: ours(run, quantize="int8"),
            "transformers, float32": lambda: transformers(run, folder),
        }
        rows = []
        for side, make in sides.items():
            perplexity, speed = measure(make(), ids, options.context)
            rows.append([side, f"{perplexity:.3f}", f"{speed:,.0f}"])
            print(*rows[-1], flush=True)
        print_table(["", "perplexity", "tokens read per second"], rows)


if __name__ == "__main__":
    main()
