"""Training speed of a GPT with 1, 2 and 4 processes: gradients added up, or all of it sharded.

    python -m benchmarks.scaling                  (about ten minutes; --widths 128 for less)

Every contestant trains the same model on the same batches of 16 rows, which its processes share,
and divides the cores of this machine among them. So on one machine, more processes gain only what
the threads of one process cannot use; the table shows what communication costs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.interleave import Contestant, print_table, ratio, serve, take_turns
from regard.data.batches import Batch, BatchStream, collate
from regard.data.examples import InMemory
from regard.data.tokenizer import PADDING
from regard.models import GPT
from regard.system.engine import Engine
from regard.system.memory import keep_freed_memory
from regard.system.ranks import ProcessGroup, World
from regard.training.gradients import Carried, make_gradients
from regard.training.loop import Loop
from regard.training.loss import Sums, token_sums
from regard.training.optimisers import make_optimiser
from regard.training.sharding import shard

VOCAB, LAYERS, ROWS, LENGTH = 4096, 4, 16, 128
UPDATES = {128: 8, 384: 3}
"""Updates per turn, by width."""
CONTESTANTS = {
    "1 process": (1, False),
    "2 processes": (2, False),
    "2, sharded": (2, True),
    "4 processes": (4, False),
    "4, sharded": (4, True),
}
"""How many processes, and whether they shard the model."""


def loss(model: Callable[..., Tensor], batch: Batch, carried: Carried) -> Sums:
    logits = model(batch.target_in)
    return token_sums(logits, batch.target_out, tokens=batch.tokens, padding=PADDING)


def make_loop(width: int, world: World, *, sharded: bool) -> Loop:
    torch.manual_seed(0)
    model = GPT(
        VOCAB,
        n_layers=LAYERS,
        d_model=width,
        n_heads=width // 32,
        d_ff=4 * width,
        max_length=LENGTH,
        dropout=0.0,
    )
    engine = Engine(sharded=sharded)
    if sharded:
        shard(model, engine.device)
    return Loop(
        model,
        BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1),
        make_gradients(loss, engine=engine, world=world),
        make_optimiser(model, name="adamw", lr=1e-3),
        lambda step: 1e-3,
        10**9,
        clip=1.0,
    )


def train(loop: Loop, updates: int) -> None:
    """So many updates on random tokens, the same on every rank."""
    random = torch.Generator().manual_seed(1)
    rows = torch.randint(4, VOCAB, (ROWS, LENGTH - 1), generator=random).tolist()
    batch = collate(rows, rows)
    for _ in range(updates):
        loop.update(loop.model, {"": batch})


def join(rank: int, size: int, store: str, *, width: int, sharded: bool) -> Loop:
    """The loop of one rank, with its part of the cores."""
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // size))
    keep_freed_memory()
    world = World()
    if size > 1:
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
        world = ProcessGroup(rank, size, size)
    return make_loop(width, world, sharded=sharded)


def contestant(name: str, width: int) -> None:
    """Rank 0, which starts the other ranks and answers requests; the others work when it does."""
    size, sharded = CONTESTANTS[name]
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        own = [sys.executable, "-m", "benchmarks.scaling", "--contestant", name]
        own += ["--widths", str(width), "--store", store]
        others = [
            subprocess.Popen([*own, "--rank", str(rank)], stdin=subprocess.DEVNULL)
            for rank in range(1, size)
        ]
        loop = join(0, size, store, width=width, sharded=sharded)

        def work() -> tuple[float, float]:
            loop.world.from_first(True)
            began = time.perf_counter()
            train(loop, UPDATES[width])
            return time.perf_counter() - began, UPDATES[width] * ROWS * LENGTH

        weights = sum(weight.numel() for weight in loop.model.parameters())
        serve(work, facts={"weights": weights})
        loop.world.from_first(False)
        for other in others:
            other.wait()


def follow(name: str, width: int, *, rank: int, store: str) -> None:
    """A rank that works whenever rank 0 does, until that ends."""
    size, sharded = CONTESTANTS[name]
    loop = join(rank, size, store, width=width, sharded=sharded)
    while loop.world.from_first(None):
        train(loop, UPDATES[width])


def compare(width: int, rounds: int) -> list[list[str]]:
    """The rows of the table for one width."""
    contestants = {name: Contestant(__file__, name, "--widths", width) for name in CONTESTANTS}
    take_turns(list(contestants.values()), rounds=rounds)
    alone = contestants["1 process"]
    return [
        [
            str(width),
            f"{alone.facts['weights'] / 1e6:.1f} M",
            name,
            f"{one.speed:,.0f}",
            f"{ratio(one, alone):.2f}×",
            f"{one.peak:,.0f}",
        ]
        for name, one in contestants.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 384], choices=UPDATES)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--store", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        follow(options.contestant, options.widths[0], rank=options.rank, store=options.store)
        return
    if options.contestant:
        contestant(options.contestant, options.widths[0])
        return
    rows = [row for width in options.widths for row in compare(width, options.rounds)]
    print_table(
        ["width", "weights", "processes", "tokens/s", "of one process", "MB of rank 0"], rows
    )


if __name__ == "__main__":
    main()
