"""The synthetic recipes, trained to the end: exact match on 2,000 held-out sequences, by kind.

python -m benchmarks.synthetic                   (about three minutes per recipe)
python -m benchmarks.synthetic sort --seeds 1 2 3
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.interleave import print_table
from regard import config
from regard.data.synthetic import KINDS, TASKS
from regard.runs.trainer import train


def kind_of(source: str) -> str:
    """Which of the three kinds a sequence is; the first that fits."""
    digits = [int(word) for word in source.split()]
    if digits == sorted(digits, reverse=True):
        return KINDS[0].__name__
    return KINDS[1].__name__ if sorted(digits) == list(range(10)) else KINDS[2].__name__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    rows = []
    for recipe in options.recipes:
        for seed in options.seeds:
            resolved = config.load(recipe, [f"seed={seed}"])
            with tempfile.TemporaryDirectory() as folder:
                trained, _ = train(resolved, Path(folder) / recipe)
                pairs = trained.task.pairs("test")
                predictions = trained.predict([source for source, _ in pairs])
            right: dict[str, list[bool]] = {kind.__name__: [] for kind in KINDS}
            for (source, target), output in zip(pairs, predictions, strict=True):
                right[kind_of(source)].append(output == target)
            total = sum(sum(marks) for marks in right.values())
            rows.append(
                [
                    recipe,
                    str(seed),
                    str(resolved.training.steps),
                    f"**{total / len(pairs):.4f}**",
                    *(f"{sum(marks)} of {len(marks)}" for marks in right.values()),
                ]
            )
            print(f"{recipe}, seed {seed}: {total} of {len(pairs)}", flush=True)
    kinds = [kind.__name__.replace("_", " ") for kind in KINDS]
    print_table(["recipe", "seed", "updates", "exact match", *kinds], rows)


if __name__ == "__main__":
    main()
