"""The race: Shakespeare with nanoGPT's settings for a CPU, beside ours, in seconds of training.

    python -m benchmarks.race --data DIR                   (three seeds; about an hour on two cores)
    python -m benchmarks.race --data DIR --seeds 1 --steps 40 --short 20 --long 20 --turn 10

DIR has input.txt, as for the recipe shakespeare. The plain side is the recipe nanogpt: 2,000 steps
of AdamW, published as 1.88 on the validation split. Ours has the same shape, context and batch,
with the parts and the optimiser of the recipe shakespeare. It runs twice: with a short schedule, to
see when it reaches the target, and with a long one, to see how far it is when the plain side ends.

All take turns of so many steps; only their updates are timed. Every loss is of the whole validation
split, in fixed blocks of 64 characters. Differences below 0.01 are noise.
"""

import argparse
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.interleave import Contestant, print_table, serve
from regard import config
from regard.runs.trainer import _loop
from regard.system.engine import make_engine
from regard.tasks import LanguageModelling
from regard.training.loop import Loop, Stop

TARGET = 1.88
"""What nanoGPT's README gives for these settings."""
SHAPE = ["data.max_length=64", "train.batch_size=12"]
"""Context and batch of nanoGPT's settings; the recipe shakespeare has larger ones."""


@dataclass
class Pause:
    """Ends a turn of the loop after so many steps."""

    every: int

    def after_step(self, loop: Loop) -> None:
        if loop.progress.step % self.every == 0:
            loop.stop = Stop("turn")


def contestant(recipe: str, settings: list[str], *, turn: int) -> None:
    """Trains one turn per request: the seconds of its updates so far, and the loss on valid."""
    engine = make_engine(device="cpu")
    resolved = config.load(recipe, settings)
    task = LanguageModelling.learn(resolved)
    model = task.build_model()
    loop = _loop(resolved, task, model, engine)
    loop.callbacks = [Pause(turn)]

    def work() -> tuple[float, float]:
        loop.stop = None
        loop.run()
        model.eval()
        loss = task.evaluate(model, "valid", engine=engine).metrics["loss"]
        return loop.progress.seconds, loss

    serve(work, {"steps": loop.steps})


@dataclass
class Runner:
    """A contestant, and what was measured of it after every turn."""

    process: Contestant
    turns: int
    measured: list[tuple[float, float]] = field(default_factory=list)
    """Seconds of training, and the loss."""

    def advance(self) -> None:
        if len(self.measured) < self.turns:
            self.measured.append(self.process.request())

    def time_to(self, target: float) -> float | None:
        """When its loss was first this low."""
        return next((seconds for seconds, loss in self.measured if loss <= target), None)

    def loss_at(self, seconds: float) -> float:
        """Its loss at the last turn that was over by then."""
        return [loss for at, loss in self.measured if at <= seconds or at == self.measured[0][0]][
            -1
        ]


def race(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One seed: all sides turn by turn, and what came of it."""
    common = [f"data.directory={options.data}", f"seed={seed}"]
    sides = {
        "plain": ("nanogpt", options.steps, []),
        "short": ("shakespeare", options.short, SHAPE),
        "long": ("shakespeare", options.long, SHAPE),
    }
    runners = {}
    for name, (recipe, steps, settings) in sides.items():
        chosen = [*common, *settings, f"train.steps={steps}"]
        process = Contestant(__file__, name, "--recipe", recipe, "--turn", options.turn, *chosen)
        runners[name] = Runner(process, -(-steps // options.turn))
    for _ in range(max(runner.turns for runner in runners.values())):
        for runner in runners.values():
            runner.advance()
    for runner in runners.values():
        runner.process.close()
    total, final = runners["plain"].measured[-1]
    reached = runners["short"].time_to(options.target)
    return {
        "seed": seed,
        "plain seconds": total,
        "plain loss": final,
        "reached": reached,
        "share": None if reached is None else reached / total,
        "loss then": runners["long"].loss_at(total),
        "measured": {name: runner.measured for name, runner in runners.items()},
    }


def report(results: list[dict[str, Any]], target: float) -> None:
    rows = [
        [
            str(result["seed"]),
            f"{result['plain seconds']:.0f} s",
            f"{result['plain loss']:.3f}",
            "—" if result["share"] is None else f"{result['share']:.2f}",
            f"{result['loss then']:.3f}",
        ]
        for result in results
    ]
    print_table(
        [
            "seed",
            "plain: time",
            "plain: loss",
            f"ours: share of that time to {target}",
            "ours: loss at that time",
        ],
        rows,
    )
    losses = [result["loss then"] for result in results]
    print(f"\nmean loss of ours: {statistics.mean(losses):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder with input.txt")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000, help="steps of the plain side")
    parser.add_argument("--short", type=int, default=250, help="steps of our short schedule")
    parser.add_argument("--long", type=int, default=1200, help="steps of our long schedule")
    parser.add_argument("--turn", type=int, default=50, help="steps per turn")
    parser.add_argument("--target", type=float, default=TARGET)
    parser.add_argument("--out", type=Path, help="a JSON file for all that was measured")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--recipe", help=argparse.SUPPRESS)
    parser.add_argument("settings", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.recipe, options.settings, turn=options.turn)
        return
    if options.data is None:
        parser.error("--data is needed: the folder with input.txt")
    results = [race(options, seed) for seed in range(1, options.seeds + 1)]
    report(results, options.target)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
