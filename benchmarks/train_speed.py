"""Training speed against the same model built from torch.nn.Transformer.

    python -m benchmarks.train_speed                (about ten minutes; --widths 64 for less)
    python -m benchmarks.train_speed --widths 256 --data DIR      (the sentences of multi30k)

The other side is the loop of a good tutorial: nn.Transformer, sentences in random batches padded to
their longest, Adam, label smoothing, clipped gradients. Both sides have the same architecture,
dropout and mean number of real tokens per batch. Lengths: 14 on average, up to 40, or those of the
recipe multi30k, whose files are in DIR.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from regard import config
from regard.data.batches import Batch, BatchStream, collate
from regard.data.examples import InMemory
from regard.data.tokenizer import PADDING
from regard.models import Transformer
from regard.system.engine import Engine
from regard.system.memory import keep_freed_memory
from regard.system.ranks import World
from regard.tasks import Translate
from regard.training.gradients import Carried, make_gradients
from regard.training.loop import Loop
from regard.training.loss import Sums, token_sums
from regard.training.optimisers import make_optimiser

VOCAB, LAYERS, ROWS, DROPOUT, SMOOTHING = 8000, 3, 64, 0.1, 0.1
SENTENCES, LONGEST = 20_000, 128
SHARE = {64: 12, 256: 5, 512: 3}
"""Updates per turn, by width."""


def heads(width: int) -> int:
    return 4 if width < 256 else 8


def sentences(data: Path | None) -> tuple[list[list[int]], list[list[int]]]:
    """Pairs with the lengths of captions and short sentences, similar on both sides."""
    if data is not None:
        task = Translate.learn(config.load("multi30k", [f"data.directory={data}"]))
        sources, targets = task.examples("train").rows(np.arange(SENTENCES))
        return sources, targets
    random = np.random.default_rng(0)
    source = np.clip(random.gamma(5.0, 13.5 / 5.0, SENTENCES).round(), 3, 40).astype(int)
    target = np.clip(source + random.integers(-2, 3, SENTENCES), 3, 40)

    def words(length: int) -> list[int]:
        return [int(word) for word in random.integers(4, VOCAB, length)]

    return [words(n) for n in source], [words(n) for n in target]


class Tutorial(nn.Module):
    """nn.Transformer with embeddings, sinusoids and an output layer around it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.source = nn.Embedding(VOCAB, width, padding_idx=0)
        self.target = nn.Embedding(VOCAB, width, padding_idx=0)
        position = torch.arange(LONGEST)[:, None]
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        table = torch.zeros(LONGEST, width)
        table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(DROPOUT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.transformer = nn.Transformer(
                width,
                heads(width),
                LAYERS,
                LAYERS,
                4 * width,
                DROPOUT,
                batch_first=True,
                norm_first=True,
            )
        # The same dropout as on our side: on sub-layers, not on attention weights nor inside the
        # feed-forward network (leaving it there would slow this side down).
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0
        self.output = nn.Linear(width, VOCAB, bias=False)

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        table = self.table[: tokens.size(1)]  # type: ignore[index]
        return self.dropout(embedding(tokens) * math.sqrt(self.width) + table)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        length = target.size(1)
        hidden = self.transformer(
            self.embed(self.source, source),
            self.embed(self.target, target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return self.output(hidden)


def random_batches(data: Path | None) -> Iterator[Batch]:
    """Shuffled sentences in batches of equally many rows, padded to their longest."""
    sources, targets = sentences(data)
    random = np.random.default_rng(1)
    while True:
        order = random.permutation(SENTENCES)
        for rows in np.split(order[: SENTENCES // ROWS * ROWS], SENTENCES // ROWS):
            yield collate([sources[i] for i in rows], [targets[i] for i in rows])


def bucketed_batches(data: Path | None) -> Iterator[Batch]:
    """The same sentences as Regard batches them, with as many real tokens per batch on average."""
    sources, targets = sentences(data)
    longest = [max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)]
    budget = round(ROWS * sum(longest) / len(longest))
    stream = BatchStream(lambda epoch: InMemory(sources, targets), seed=1, batch_tokens=budget)
    epoch = 0
    while True:
        yield from stream.epoch(epoch)
        epoch += 1


def real_tokens(batch: Batch) -> int:
    return int((batch.source != 0).sum()) + batch.tokens


def tutorial(width: int, share: int, *, data: Path | None) -> Work:
    model = Tutorial(width).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    batches = random_batches(data)

    def work() -> tuple[float, float]:
        chosen = [next(batches) for _ in range(share)]
        began = time.perf_counter()
        total = 0.0
        for batch in chosen:
            optimiser.zero_grad()
            scores = model(batch.source, batch.target_in)
            loss = F.cross_entropy(
                scores.reshape(-1, VOCAB),
                batch.target_out.reshape(-1),
                ignore_index=0,
                label_smoothing=SMOOTHING,
            )
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            total += loss.item()
        return time.perf_counter() - began, sum(map(real_tokens, chosen))

    return work


def regard_loop(width: int, engine: Engine, *, shares: int = 1) -> tuple[Loop, nn.Module]:
    model = Transformer(
        VOCAB,
        VOCAB,
        d_model=width,
        n_layers=LAYERS,
        n_heads=heads(width),
        d_ff=4 * width,
        dropout=DROPOUT,
    ).train()

    def loss(model: Callable[..., Tensor], batch: Batch, carried: Carried) -> Sums:
        lengths = batch.source_lengths
        scores = model(batch.source, batch.target_in, source_lengths=lengths)
        return token_sums(
            scores, batch.target_out, tokens=batch.tokens, smoothing=SMOOTHING, padding=PADDING
        )

    optimiser = make_optimiser(model, name="adam", lr=1e-4)
    # The benchmark hands its batches to the loop itself.
    none = BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1)
    gradients = make_gradients(loss, engine=engine, shares=shares, world=World())
    loop = Loop(model, none, gradients, optimiser, lambda step: 1e-4, 1, clip=1.0)
    return loop, engine.callable(model)


def regard(
    width: int, share: int, *, batches: Iterator[Batch], engine: Engine, shares: int = 1
) -> Work:
    loop, model = regard_loop(width, engine, shares=shares)

    def work() -> tuple[float, float]:
        chosen = [next(batches) for _ in range(share)]
        began = time.perf_counter()
        with loop.gradients.ready():
            for batch in chosen:
                loop.update(model, {"": batch})
        return time.perf_counter() - began, sum(map(real_tokens, chosen))

    return work


def matrix_product(share: int) -> Work:
    """The machine's limit: products of 1024 × 1024 matrices, in floating-point operations."""
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(10):
            left @ right
        return time.perf_counter() - began, 10 * 2 * 1024**3

    return work


def operations_per_token(width: int, data: Path | None) -> float:
    """Floating-point operations of one update for every real token, on bucketed batches."""
    loop, model = regard_loop(width, Engine())
    batches, tokens, operations = bucketed_batches(data), 0, 0
    for _ in range(3):
        batch = next(batches)
        with FlopCounterMode(display=False) as counter:
            loop.update(model, {"": batch})
        tokens, operations = tokens + real_tokens(batch), operations + counter.get_total_flops()
    return operations / tokens


def contestant(name: str, width: int, data: Path | None) -> None:
    share = SHARE[width]
    torch.manual_seed(0)
    makers: dict[str, Callable[[], Work]] = {
        "tutorial": lambda: tutorial(width, share, data=data),
        "regard": lambda: regard(width, share, batches=bucketed_batches(data), engine=Engine()),
        "regard, shared out": lambda: regard(
            width,
            share,
            batches=bucketed_batches(data),
            engine=Engine(),
            shares=torch.get_num_threads(),
        ),
        "regard, its batches": lambda: regard(
            width, share, batches=random_batches(data), engine=Engine()
        ),
        "regard, memory handed back": lambda: regard(
            width, share, batches=bucketed_batches(data), engine=Engine()
        ),
        "regard, compiled": lambda: regard(
            width,
            share,
            batches=bucketed_batches(data),
            engine=Engine(compiled=True),
        ),
        "matrix product": lambda: matrix_product(share),
    }
    # Not on its batches, where like is compared with like.
    if name in ("regard", "regard, shared out", "regard, compiled"):
        keep_freed_memory()
    serve(makers[name]())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 512], choices=SHARE)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.contestant, options.widths[0], options.data)
        return
    rows = []
    for width in options.widths:
        names = [
            "tutorial",
            "regard",
            "regard, shared out",
            "regard, its batches",
            "regard, memory handed back",
            "regard, compiled",
            "matrix product",
        ]
        where = [] if options.data is None else ["--data", options.data.resolve()]
        contestants = {
            name: Contestant(__file__, name, "--widths", width, *where) for name in names
        }
        take_turns(list(contestants.values()), rounds=options.rounds, warm_up=3)
        ours, peer = contestants["regard"], contestants["tutorial"]
        share = (
            ours.speed
            * operations_per_token(width, options.data)
            / contestants["matrix product"].speed
        )
        rows.append(
            [
                str(width),
                f"{peer.speed:,.0f}",
                f"{ours.speed:,.0f}",
                f"**{ratio(ours, peer):.2f}×**",
                f"{ratio(contestants['regard, its batches'], peer):.2f}×",
                f"{ratio(contestants['regard, shared out'], ours):.2f}×",
                f"{ratio(contestants['regard, compiled'], ours):.2f}×",
                f"{ratio(ours, contestants['regard, memory handed back']):.2f}×",
                f"{100 * share:.0f}%",
                f"{ours.peak:,.0f} / {peer.peak:,.0f}",
            ]
        )
        print(f"width {width} done", flush=True)
    print_table(
        [
            "width",
            "tutorial, tokens/s",
            "Regard, tokens/s",
            "Regard / tutorial",
            "on the same batches",
            "`train.shares` adds",
            "`--compile` adds",
            "keeping freed memory adds",
            "of the matrix-product rate",
            "peak memory, MB, Regard / tutorial",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
