"""Training speed of a GPT against the same model and loop in plain PyTorch, in tokens per second.

    python -m benchmarks.gpt_speed                  (about ten minutes; --widths 128 for less)

The other side is nanoGPT's model and loop, written out: batches cut at random places, fused
attention, AdamW that decays matrices alone, gradients clipped at 1. Both sides have the shape of
nanoGPT's recipes for characters, for a CPU (width 128: 4 layers, context 64, 12 rows) and for a GPU
(width 384: 6 layers, context 256, here 8 rows), the same parts and the same number of weights.

The last column is the share of the matrix-product rate: operations per second, of what products of
1024 × 1024 matrices reach. A token costs 6 operations per weight of a product, forward and back,
and 6 · layers · width · context in causal attention.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from benchmarks.train_speed import matrix_product
from regard.data.blocks import BlockBatch, BlockStream, Cutter
from regard.data.tokenizer import SpecialIds
from regard.models import GPT
from regard.system.engine import Engine
from regard.system.memory import keep_freed_memory
from regard.system.ranks import World
from regard.training.gradients import Carried, make_gradients
from regard.training.loop import Loop
from regard.training.loss import Sums, token_sums
from regard.training.optimisers import make_optimiser

VOCAB, CHARACTERS = 65, 1_000_000
"""Those of Shakespeare, about."""
LR, DECAY = 1e-3, 0.1


@dataclass(frozen=True)
class Shape:
    """A model and its batches."""

    width: int
    layers: int
    heads: int
    context: int
    rows: int
    updates: int
    """Per turn."""


SHAPES = {
    shape.width: shape for shape in (Shape(128, 4, 4, 64, 12, 40), Shape(384, 6, 6, 256, 8, 3))
}


def text() -> np.ndarray:
    """Characters at random: their values do not change the speed."""
    return np.random.default_rng(0).integers(4, VOCAB, CHARACTERS).astype(np.uint32)


class PlainBlock(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x))."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm_1 = nn.LayerNorm(shape.width, bias=False)
        self.attention = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.projection = nn.Linear(shape.width, shape.width, bias=False)
        self.norm_2 = nn.LayerNorm(shape.width, bias=False)
        self.inner = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.outer = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        B, L, D = x.shape
        query, key, value = (
            part.view(B, L, self.heads, D // self.heads).transpose(1, 2)
            for part in self.attention(self.norm_1(x)).split(D, dim=2)
        )
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(heads.transpose(1, 2).contiguous().view(B, L, D))
        return x + self.outer(F.gelu(self.inner(self.norm_2(x))))


class PlainGPT(nn.Module):
    """Learned positions, pre-norm, a tied output: nanoGPT's model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(PlainBlock(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.output = nn.Linear(shape.width, VOCAB, bias=False)
        self.output.weight = self.tokens.weight
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


def plain_optimiser(model: nn.Module) -> torch.optim.Optimizer:
    matrices = [weight for weight in model.parameters() if weight.dim() >= 2]
    vectors = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99))


def plain(shape: Shape) -> tuple[Work, nn.Module]:
    """nanoGPT's loop."""
    model, ids, random = PlainGPT(shape).train(), text(), np.random.default_rng(1)
    optimiser = plain_optimiser(model)

    def batch() -> tuple[Tensor, Tensor]:
        starts = random.integers(len(ids) - shape.context, size=shape.rows)
        rows = [ids[at : at + shape.context + 1].astype(np.int64) for at in starts]
        both = torch.stack([torch.from_numpy(row) for row in rows])
        return both[:, :-1], both[:, 1:]

    def update() -> None:
        source, target = batch()
        logits = model(source)
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), target.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return timed(update, shape), model


def our_loss(model: Callable[..., Tensor], batch: BlockBatch, carried: Carried) -> Sums:
    return token_sums(model(batch.source), batch.target, tokens=batch.tokens, padding=-1)


def regard(shape: Shape) -> tuple[Work, nn.Module]:
    """The task's batches and the loop of `regard train`, without what happens beside it."""
    model = GPT(
        VOCAB,
        n_layers=shape.layers,
        d_model=shape.width,
        n_heads=shape.heads,
        d_ff=4 * shape.width,
        max_length=shape.context,
        activation="gelu",
        bias=False,
        dropout=0.0,
    ).train()
    ids = text()
    special = SpecialIds(padding=0, start=1, end=2, unknown=3)
    stream = BlockStream(Cutter(lambda: ids, shape.context, special), rows=shape.rows, seed=1)
    loop = Loop(
        model,
        stream,
        make_gradients(our_loss, engine=Engine(), world=World()),
        make_optimiser(model, name="adamw", lr=LR, weight_decay=DECAY),
        lambda step: LR,
        10**9,
        clip=1.0,
    )
    batches = endless(stream)

    def update() -> None:
        loop.update(model, {"": next(batches)})

    return timed(update, shape), model


def endless(stream: BlockStream) -> Iterator[BlockBatch]:
    """Whole batches, epoch after epoch."""
    epoch = 0
    while True:
        whole = stream.count(epoch) - 1  # the last one may have fewer rows
        yield from (batch for _, batch in zip(range(whole), stream.epoch(epoch), strict=False))
        epoch += 1


def timed(update: Callable[[], None], shape: Shape) -> Work:
    def work() -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(shape.updates):
            update()
        return time.perf_counter() - began, shape.updates * shape.rows * shape.context

    return work


def operations_per_token(shape: Shape) -> float:
    """Floating-point operations of an update, for each token."""
    per_layer = 12 * shape.width**2
    weights = shape.layers * per_layer + VOCAB * shape.width
    return 6 * weights + 6 * shape.layers * shape.width * shape.context


def contestant(name: str, shape: Shape) -> None:
    torch.manual_seed(0)
    if name == "matrix product":
        serve(matrix_product(shape.updates))
        return
    if name == "regard":
        keep_freed_memory()
    work, model = (regard if name == "regard" else plain)(shape)
    serve(work, facts={"weights": sum(weight.numel() for weight in model.parameters())})


def compare(shape: Shape, rounds: int) -> list[str]:
    """The row of the table for one width."""
    names = ("plain", "regard", "matrix product")
    sides = {name: Contestant(__file__, name, "--widths", shape.width) for name in names}
    take_turns(list(sides.values()), rounds=rounds, warm_up=2)
    ours, theirs = sides["regard"], sides["plain"]
    if ours.facts != theirs.facts:
        raise SystemExit(f"the sides have {ours.facts} and {theirs.facts}: not the same model")
    rate = sides["matrix product"].speed
    shares = [side.speed * operations_per_token(shape) / rate for side in (ours, theirs)]
    return [
        str(shape.width),
        f"{ours.facts['weights'] / 1e6:.1f} M",
        f"{theirs.speed:,.0f}",
        f"{ours.speed:,.0f}",
        f"**{ratio(ours, theirs):.2f}×**",
        " / ".join(f"{share:.0%}" for share in shares),
        f"{ours.peak:,.0f} / {theirs.peak:,.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--widths", type=int, nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.contestant, SHAPES[options.widths[0]])
        return
    rows = []
    for width in options.widths:
        rows.append(compare(SHAPES[width], options.rounds))
        print(*rows[-1], flush=True)
    header = ["width", "weights", "plain, tokens/s", "Regard, tokens/s", "Regard / plain"]
    header += ["of the matrix-product rate", "peak memory, MB, Regard / plain"]
    print_table(header, rows)


if __name__ == "__main__":
    main()
