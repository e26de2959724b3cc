"""Word error rates on `pronounce`: every cell with every attention, and the Transformer.

python -m benchmarks.pronounce                        (about an hour and a half on one core)
python -m benchmarks.pronounce --kinds gru lstm --attentions none bahdanau --seeds 1 2

Each gets the same budget: the same words, as many updates of as many tokens, the same width.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.interleave import print_table
from regard import config
from regard.runs.trainer import train

KINDS = ["rnn", "gru", "lstm", "transformer"]
ATTENTIONS = ["none", "bahdanau", "luong-dot", "luong-general", "luong-concat"]

BUDGET = [
    "model.d_model=128",
    "model.dropout=0.1",
    "train.batch_tokens=1024",
    "train.lr=1e-3",
    "train.steps=3000",
    "train.warmup=300",
    "train.eval_every=3000",
    "train.save_every=3000",
    "train.metric=loss",
    "decode.strategy=greedy",
]


def variants(kinds: list[str], attentions: list[str]) -> list[tuple[str, str, list[str]]]:
    """Kind, attention and settings of each model to train."""
    settings = [
        (kind, attention, [f"model.kind={kind}", f"model.attention={attention}"])
        for kind in kinds
        if kind != "transformer"
        for attention in attentions
    ]
    if "transformer" in kinds:
        transformer = ["model.kind=transformer", "model.n_layers=2", "model.d_ff=512"]
        settings.append(("transformer", "2 layers", transformer))
    return settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--attentions", nargs="+", default=ATTENTIONS, choices=ATTENTIONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    rows = []
    for kind, attention, settings in variants(options.kinds, options.attentions):
        for seed in options.seeds:
            resolved = config.load("pronounce", [*BUDGET, *settings, f"seed={seed}"])
            with tempfile.TemporaryDirectory() as folder:
                made, _ = train(resolved, Path(folder) / "run")
                scores = made.evaluate("test")["metrics"]
                minutes = made.metrics()[-1]["seconds"] / 60
            size = sum(parameter.numel() for parameter in made.model.parameters())
            rows.append(
                [
                    kind,
                    attention,
                    str(seed),
                    f"{size / 1e6:.2f} M",
                    f"**{100 * scores['wer']:.1f}%**",
                    f"{100 * scores['per']:.1f}%",
                    f"{minutes:.1f}",
                ]
            )
            print(*rows[-1], flush=True)
    print_table(["cell", "attention", "seed", "weights", "WER", "PER", "minutes"], rows)


if __name__ == "__main__":
    main()
