"""What each choice adds to a translator: BLEU on valid, one choice after another.

    python -m benchmarks.effects --data DIR                (over an hour on one core)
    python -m benchmarks.effects --data DIR --seeds 1 --epochs 2

DIR has the files of the recipe multi30k. A small Transformer (3 + 3 layers, width 128) is trained
for a few epochs with no choice made, then with the first, with the first two, and so on; then with
other BPE vocabulary sizes; and the last run is decoded with other beams. Every run is trained once
per seed, into --out, where a finished run is used again. After ± is the standard error.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

from benchmarks.interleave import print_table
from regard import config
from regard.runs.directory import read_metrics
from regard.runs.run import load
from regard.runs.trainer import train

BUDGET = [
    "model.d_model=128",
    "model.d_ff=256",
    "model.dropout=0.1",
    "train.batch_tokens=1024",
    "train.lr=2e-3",
    "train.warmup=300",
    "train.eval_every=250",
    "train.save_every=1000",
    "train.average=3",
    "decode.strategy=greedy",
]
PLAIN = [
    "model.norm=post",
    "train.label_smoothing=0",
    "model.tie_embeddings=none",
    "tokenizer.vocab_size=6000",
]
CHOICES = {
    "norm before each part, not after": "model.norm=pre",
    "label smoothing, 0.1": "train.label_smoothing=0.1",
    "one embedding for source, target and output": "model.tie_embeddings=all",
    "3,000 BPE pieces, not 6,000": "tokenizer.vocab_size=3000",
}
SIZES = [1500, 3000, 6000]
BEAMS = [1, 2, 5, 10]


def trained(folder: Path, chosen: list[str], settings: list[str]) -> Path:
    """The run with these settings; it is trained, or resumed, if it is not finished."""
    name = "_".join(setting.partition(".")[2] for setting in chosen)
    path = folder / (name or "plain")
    if not any("averaged" in line for line in read_metrics(path)):
        resolved = config.load("multi30k", [*BUDGET, *PLAIN, *chosen, *settings])
        _, stop = train(resolved, path, resume=path.exists())
        if stop is not None:
            raise SystemExit(f"{stop.reason}; the same command goes on from here.")
    return path


def last_evaluations(path: Path) -> tuple[float, float]:
    """Greedy BLEU on valid: of the last weights, and of the mean of the last three."""
    lines: list[dict[str, Any]] = read_metrics(path)
    single = [line for line in lines if "averaged" not in line][-1]
    averaged = [line for line in lines if "averaged" in line][-1]
    return single["valid"]["bleu"], averaged["valid"]["bleu"]


def shown(scores: list[float]) -> str:
    spread = f" ± {statistics.stdev(scores) / len(scores) ** 0.5:.1f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/effects"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--epochs", type=int, default=3, choices=range(2, 100), metavar="N")
    options = parser.parse_args()
    folder = options.out / f"epochs-{options.epochs}"
    common = [f"data.directory={options.data.resolve()}", f"train.epochs={options.epochs}"]

    def runs(chosen: list[str]) -> list[Path]:
        return [
            trained(folder / f"seed-{seed}", chosen, [*common, f"seed={seed}"])
            for seed in options.seeds
        ]

    rows, before, chosen = [], 0.0, []
    for choice, setting in {"none of these": None, **CHOICES}.items():
        chosen += [] if setting is None else [setting]
        made = runs(chosen)
        scores = [last_evaluations(path)[0] for path in made]
        rows.append([choice, *_beside(scores, before)])
        before = statistics.mean(scores)
        print(*rows[-1], flush=True)
    averaged = [last_evaluations(path)[1] for path in made]
    rows.append(["the mean of the last three evaluations", *_beside(averaged, before)])
    beams = {
        beam: [
            load(path, data=options.data).evaluate("valid", strategy="beam", beam=beam)["metrics"]
            for path in made
        ]
        for beam in BEAMS
    }
    # The best weights of each run, be they the mean or one evaluation's; so beam 1 is of those too.
    ones, fives = ([metrics["bleu"] for metrics in beams[beam]] for beam in (1, 5))
    rows.append(["beam 5, not greedy", *_beside(fives, statistics.mean(ones))])
    print_table(["each line adds", "BLEU on valid", "adds"], rows)
    print()
    pieces = [
        [
            f"{size:,}",
            shown([last_evaluations(path)[0] for path in runs([*chosen[:-1], *_size(size)])]),
        ]
        for size in SIZES
    ]
    print_table(["BPE pieces", "BLEU on valid, greedy"], pieces)
    print()
    print_table(
        ["beam", "BLEU on valid"],
        [[str(beam), shown([one["bleu"] for one in result])] for beam, result in beams.items()],
    )


def _size(pieces: int) -> list[str]:
    """The setting, unless it is the default, whose run exists already."""
    setting = f"tokenizer.vocab_size={pieces}"
    return [] if setting in PLAIN else [setting]


def _beside(scores: list[float], before: float) -> list[str]:
    return [shown(scores), f"{statistics.mean(scores) - before:+.1f}" if before else ""]


if __name__ == "__main__":
    main()
