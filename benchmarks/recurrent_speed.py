"""Training speed of recurrent networks: fast against reference, and against a plain torch loop.

python -m benchmarks.recurrent_speed             (about three minutes)

A classifier of one layer, batches of 32. First on sequences of 20 tokens, by the fast path and by
the written-out one: whole updates, and the recurrent layer alone, forward and backward, with
torch.nn's for comparison. Then an LSTM of width 128 on ragged texts, 4 to 80 tokens and 18 on
average, against the loop of a tutorial over torch.nn.LSTM: random batches, padded to their longest,
and the output of the last real step.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from regard.data.batches import BatchStream
from regard.data.examples import Ids, InMemory
from regard.data.text_batch import TextBatch, collate_classes
from regard.models import RecurrentClassifier
from regard.nn import Recurrent
from regard.nn.cells import CellKind
from regard.nn.recurrent import FAST
from regard.system.memory import keep_freed_memory
from regard.training.gradients import Carried, WholeBatch
from regard.training.loop import Loop
from regard.training.loss import NONE_IS_PADDING, Sums, token_sums
from regard.training.optimisers import make_optimiser

VOCAB, CLASSES, WIDTH, ROWS, LENGTH, TEXTS, SHARE = 200, 2, 128, 32, 20, 4_000, 16
WIDTHS = (32, WIDTH)
PATHS = ("reference", "fast")
LAYERS = (*PATHS, "torch")
KINDS: tuple[CellKind, ...] = ("rnn", "gru", "lstm")


def texts() -> tuple[list[Ids], list[Ids]]:
    """Ragged texts: many short ones, a few long ones."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(2.7, 0.6, TEXTS).astype(int), 4, 80)
    sources = [random.integers(4, VOCAB, length).tolist() for length in lengths]
    return sources, [[int(random.integers(CLASSES))] for _ in sources]


def even_batches() -> Iterator[TextBatch]:
    """Sequences of one length."""
    random = np.random.default_rng(0)
    while True:
        yield collate_classes(
            random.integers(4, VOCAB, (ROWS, LENGTH)).tolist(),
            random.integers(0, CLASSES, (ROWS, 1)).tolist(),
        )


def random_batches() -> Iterator[TextBatch]:
    """Shuffled texts in batches of equally many rows, padded to their longest."""
    sources, targets = texts()
    random = np.random.default_rng(1)
    while True:
        for rows in np.split(random.permutation(TEXTS), TEXTS // ROWS):
            yield collate_classes([sources[i] for i in rows], [targets[i] for i in rows])


def bucketed_batches() -> Iterator[TextBatch]:
    """The same texts as Regard batches them."""
    examples, epoch = InMemory(*texts()), 0
    stream = BatchStream(lambda number: examples, collate_classes, seed=1, batch_size=ROWS)
    while True:
        yield from stream.epoch(epoch)
        epoch += 1


class Plain(nn.Module):
    """Embedding, torch.nn.LSTM over the padded batch, the output at each text's last token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.output = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs, _ = self.lstm(self.embedding(tokens))
        last = (tokens != 0).sum(dim=1) - 1
        return self.output(outputs[torch.arange(len(tokens)), last])


def timed(batches: Iterator[TextBatch], update: Callable[[TextBatch], Any]) -> Work:
    """A share of updates, in real tokens."""

    def work() -> tuple[float, float]:
        chosen = [next(batches) for _ in range(SHARE)]
        began = time.perf_counter()
        for batch in chosen:
            update(batch)
        tokens = sum(int((batch.source != 0).sum()) for batch in chosen)
        return time.perf_counter() - began, tokens

    return work


def regard(
    kind: CellKind, batches: Iterator[TextBatch], *, width: int = WIDTH, fast: bool = True
) -> Work:
    model = RecurrentClassifier(
        VOCAB, CLASSES, kind=kind, d_model=width, dropout=0.0, fast=fast
    ).train()

    def loss(model: Callable[..., Tensor], batch: TextBatch, carried: Carried) -> Sums:
        return token_sums(
            model(batch.source, batch.lengths)[:, None],
            batch.targets[:, None],
            tokens=batch.tokens,
            padding=NONE_IS_PADDING,
        )

    # The benchmark hands its batches to the loop itself.
    none = BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1)
    optimiser = make_optimiser(model, name="adam", lr=1e-3)
    loop = Loop(model, none, WholeBatch(loss), optimiser, lambda step: 1e-3, 1, clip=1.0)
    return timed(batches, lambda batch: loop.update(model, {"": batch}))


def layer(kind: CellKind, width: int, path: str) -> Work:
    """The recurrent layer alone, forward and backward."""
    x = torch.randn(ROWS, LENGTH, width, requires_grad=True)
    layers = (
        FAST[kind](width, width, batch_first=True)
        if path == "torch"
        else Recurrent(kind, width, width, fast=path == "fast")
    )
    gradient = torch.randn(ROWS, LENGTH, width)

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(SHARE):
            layers(x)[0].backward(gradient)
            layers.zero_grad()
            x.grad = None
        return time.perf_counter() - began, SHARE * ROWS * LENGTH

    return work


def plain(batches: Iterator[TextBatch]) -> Work:
    model = Plain().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def update(batch: TextBatch) -> None:
        optimiser.zero_grad()
        loss = F.cross_entropy(model(batch.source, batch.lengths), batch.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        loss.item()

    return timed(batches, update)


def contestant(name: str) -> None:
    torch.manual_seed(0)
    makers: dict[str, Callable[[], Work]] = {
        "plain": lambda: plain(random_batches()),
        "regard": lambda: regard("lstm", bucketed_batches()),
        "regard, its batches": lambda: regard("lstm", random_batches()),
    }
    for kind, width, path in itertools.product(KINDS, WIDTHS, PATHS):
        makers[f"{kind} {width} {path}"] = partial(
            regard, kind, even_batches(), width=width, fast=path == "fast"
        )
    for kind, width, path in itertools.product(KINDS, WIDTHS, LAYERS):
        makers[f"{kind} {width} {path} layer"] = partial(layer, kind, width, path)
    if name not in ("plain", "regard, its batches"):  # as `regard train` does
        keep_freed_memory()
    serve(makers[name]())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.contestant)
        return
    rows = []
    for kind, width in itertools.product(KINDS, WIDTHS):
        pair = [Contestant(__file__, f"{kind} {width} {path}") for path in PATHS]
        layers = [Contestant(__file__, f"{kind} {width} {path} layer") for path in LAYERS]
        take_turns([*pair, *layers], rounds=options.rounds, warm_up=2)
        (reference, fast), (by_steps, alone, torchs) = pair, layers
        speeds = [f"{one.speed:,.0f}" for one in pair]
        ratios = [f"{ratio(*two):.1f}×" for two in ((alone, by_steps), (alone, torchs))]
        rows.append([kind, str(width), *speeds, f"**{ratio(fast, reference):.1f}×**", *ratios])
    header = ["cell", "width", "reference, tokens/s", "fast, tokens/s", "fast / reference"]
    print_table(
        [*header, "fast / reference, the layer alone", "fast / torch.nn, the layer alone"], rows
    )
    names = ("plain", "regard", "regard, its batches")
    contestants = {name: Contestant(__file__, name) for name in names}
    take_turns(list(contestants.values()), rounds=options.rounds, warm_up=2)
    peer, ours, same = contestants.values()
    print()
    print_table(
        ["torch.nn.LSTM, tokens/s", "Regard, tokens/s", "Regard / plain", "on the same batches"],
        [
            [
                f"{peer.speed:,.0f}",
                f"{ours.speed:,.0f}",
                f"**{ratio(ours, peer):.2f}×**",
                f"{ratio(same, peer):.2f}×",
            ]
        ],
    )


if __name__ == "__main__":
    main()
