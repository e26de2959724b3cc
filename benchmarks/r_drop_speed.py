"""The loss of R-Drop: its gradient written out, against autograd's.

python -m benchmarks.r_drop_speed             (about two minutes)

Batches of 2,048 target tokens, with two forward passes each, and 6,000 subwords, as in
multi30k-long. First only the loss, forward and backward; then whole updates of a Transformer of
width 128, 4 + 4 layers.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from regard.data.batches import Batch, BatchStream, collate
from regard.data.examples import InMemory
from regard.models import Transformer
from regard.system.memory import keep_freed_memory
from regard.training.gradients import Carried, WholeBatch
from regard.training.loop import Loop
from regard.training.loss import Sums
from regard.training.optimisers import make_optimiser
from regard.training.r_drop import r_drop, r_drop_reference

VOCAB, WIDTH, ROWS, LENGTH, ALPHA, SMOOTHING, SHARE = 6_000, 128, 128, 15, 5.0, 0.1, 3
PATHS = {"reference": r_drop_reference, "fast": r_drop}
WHOLE = "update"


def loss_alone(path: str) -> Work:
    """The loss of both passes of a batch, and its gradient."""
    scores = torch.randn(2 * ROWS, LENGTH + 1, VOCAB, requires_grad=True)
    targets = torch.randint(4, VOCAB, (ROWS, LENGTH + 1))

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(SHARE):
            scores.grad = None
            PATHS[path](scores, targets, alpha=ALPHA, smoothing=SMOOTHING).backward()
        return time.perf_counter() - began, SHARE * targets.numel()

    return work


def update(path: str) -> Work:
    """A whole update."""
    model = Transformer(
        VOCAB, VOCAB, d_model=WIDTH, n_layers=4, n_heads=4, d_ff=2 * WIDTH, tie_embeddings="all"
    ).train()

    def loss(model: Callable[..., Tensor], batch: Batch, carried: Carried) -> Sums:
        logits = model(
            batch.source.repeat(2, 1),
            batch.target_in.repeat(2, 1),
            source_lengths=batch.source_lengths.repeat(2),
        )
        result = PATHS[path](logits, batch.target_out, alpha=ALPHA, smoothing=SMOOTHING)
        return Sums.of(result, batch.tokens)

    optimiser = make_optimiser(model, name="muon", lr=1e-4)
    # The benchmark hands its batch to the loop itself.
    none = BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1)
    loop = Loop(model, none, WholeBatch(loss), optimiser, lambda step: 1e-4, 1, clip=1.0)
    rows = torch.randint(4, VOCAB, (ROWS, LENGTH)).tolist()
    batch = collate(rows, rows)

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(SHARE):
            loop.update(model, {"": batch})
        return time.perf_counter() - began, SHARE * batch.tokens

    return work


def contestant(name: str) -> None:
    torch.manual_seed(0)
    keep_freed_memory()  # as `regard train` does
    path, *whole = name.split()
    serve(update(path) if whole else loss_alone(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.contestant)
        return
    rows = []
    for what, suffix in (("the loss alone", ""), ("an update", f" {WHOLE}")):
        pair = [Contestant(__file__, path + suffix) for path in PATHS]
        take_turns(pair, rounds=options.rounds, warm_up=2)
        reference, fast = pair
        rows.append(
            [
                what,
                f"{reference.speed:,.0f}",
                f"{fast.speed:,.0f}",
                f"**{ratio(fast, reference):.2f}×**",
                f"{fast.peak:,.0f} / {reference.peak:,.0f}",
            ]
        )
    print_table(
        [
            "what",
            "by autograd, tokens/s",
            "written out, tokens/s",
            "written out / autograd",
            "peak memory, MB, written out / autograd",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
