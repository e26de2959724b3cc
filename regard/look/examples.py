"""Held-out examples with the predictions of a run: `python -m regard.look.examples RUN`."""

import argparse
import sys

from regard.runs.run import load
from regard.system.errors import UserError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    run = load(options.run)
    run.config.data.require("test")
    pairs = run.task.pairs("test")[: options.count]
    predictions = run.predict([source for source, _ in pairs])
    width = max(len(source) for source, _ in pairs)
    for (source, target), prediction in zip(pairs, predictions, strict=True):
        mark = "✓" if prediction == target else f"✗ should be {target}"
        print(f"  {source:<{width}}  →  {prediction}  {mark}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"regard: {error}")
