"""Fine-tuning speed beside transformers in a plain loop: the shape of MiniLM, a class for a text.

    python -m benchmarks.finetune_speed                (about ten minutes; --rounds 3 for less)

The other side is the loop of a good tutorial: BertForSequenceClassification, texts in random
batches of 32 padded to their longest, AdamW, clipped gradients. Both sides have a model of the same
shape, dropout and rows per batch; neither drops out attention weights, which would slow both down.
Texts have 16 tokens on average and at most 64, a little more than those of SST-2.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from regard import config
from regard.data.batches import BatchStream
from regard.data.examples import InMemory
from regard.data.text_batch import TextBatch, collate_classes
from regard.models.build import classifier
from regard.system.engine import Engine
from regard.system.memory import keep_freed_memory
from regard.system.ranks import World
from regard.training.gradients import Carried, make_gradients
from regard.training.loop import Loop
from regard.training.loss import NONE_IS_PADDING, Sums, token_sums
from regard.training.optimisers import make_optimiser

VOCAB, CLASSES, ROWS, TEXTS, SHARE = 30_522, 2, 32, 8_000, 4
"""SHARE: updates per turn."""
LR, DECAY = 1e-4, 0.01
SIZE = "minilm-l6"


def texts() -> tuple[list[list[int]], list[list[int]]]:
    random = np.random.default_rng(0)
    lengths = np.clip(random.gamma(2.0, 8.0, TEXTS).round(), 3, 64).astype(int)
    rows = [[int(token) for token in random.integers(4, VOCAB, length)] for length in lengths]
    return rows, [[int(label)] for label in random.integers(0, CLASSES, TEXTS)]


def random_batches() -> Iterator[TextBatch]:
    """Shuffled texts, as many in each batch, padded to their longest."""
    rows, labels = texts()
    random = np.random.default_rng(1)
    while True:
        for chosen in np.split(random.permutation(TEXTS), TEXTS // ROWS):
            yield collate_classes([rows[i] for i in chosen], [labels[i] for i in chosen])


def bucketed_batches() -> Iterator[TextBatch]:
    """The same as Regard batches them: texts of like length together, as many in each batch."""
    rows, labels = texts()
    stream = BatchStream(
        lambda epoch: InMemory(rows, labels), collate_classes, seed=1, batch_size=ROWS
    )
    epoch = 0
    while True:
        yield from stream.epoch(epoch)
        epoch += 1


def our_model() -> nn.Module:
    values: dict[str, Any] = {"task": "classify", "data": {"max_length": 64}}
    values["model"] = {"size": SIZE, "pooling": "final"}
    settings = config.validate(values, where="the benchmark")
    torch.manual_seed(0)
    return classifier(settings, vocab=VOCAB, classes=CLASSES, padding=None)


def their_model() -> nn.Module:
    """The same shape; speed does not depend on what the weights are."""
    from transformers import BertConfig, BertForSequenceClassification

    ours = config.Model(size=SIZE)
    torch.manual_seed(0)
    make_config: Any = BertConfig
    shape = make_config(
        vocab_size=VOCAB,
        hidden_size=ours.d_model,
        num_hidden_layers=ours.n_layers,
        num_attention_heads=ours.n_heads,
        intermediate_size=ours.d_ff,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
    )
    model: nn.Module = BertForSequenceClassification(shape)
    return model


def transformers(batches: Iterator[TextBatch]) -> Work:
    model = their_model().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY)

    def work() -> tuple[float, float]:
        chosen = [next(batches) for _ in range(SHARE)]
        began = time.perf_counter()
        for batch in chosen:
            places = torch.arange(batch.source.size(1))
            mask = (places < batch.lengths[:, None]).long()
            output = model(batch.source, attention_mask=mask, labels=batch.targets)
            output.loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
        return time.perf_counter() - began, sum(batch.tokens for batch in chosen)

    return work


def regard(batches: Iterator[TextBatch], *, shares: int = 1) -> Work:
    model = our_model().train()

    def loss(model: Any, batch: TextBatch, carried: Carried) -> Sums:
        logits, targets = model(batch.source, batch.lengths)[:, None], batch.targets[:, None]
        return token_sums(logits, targets, tokens=batch.tokens, padding=NONE_IS_PADDING)

    # The benchmark hands its batches to the loop itself.
    none = BatchStream(lambda epoch: InMemory([], []), seed=0, batch_size=1)
    gradients = make_gradients(loss, engine=Engine(), shares=shares, world=World())
    optimiser = make_optimiser(model, name="adamw", lr=LR, weight_decay=DECAY)
    loop = Loop(model, none, gradients, optimiser, lambda step: LR, 1, clip=1.0)

    def work() -> tuple[float, float]:
        chosen = [next(batches) for _ in range(SHARE)]
        began = time.perf_counter()
        with loop.gradients.ready():
            for batch in chosen:
                loop.update(model, {"": batch})
        return time.perf_counter() - began, sum(batch.tokens for batch in chosen)

    return work


def contestant(name: str) -> None:
    makers: dict[str, Callable[[], Work]] = {
        "transformers": lambda: transformers(random_batches()),
        "transformers, our batches": lambda: transformers(bucketed_batches()),
        "regard": lambda: regard(bucketed_batches()),
        "regard, shared out": partial(
            regard, bucketed_batches(), shares=max(2, torch.get_num_threads())
        ),
        "regard, its batches": lambda: regard(random_batches()),
    }
    if name in ("regard", "regard, shared out"):
        keep_freed_memory()
    serve(makers[name]())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contestant(options.contestant)
        return
    names = (
        "transformers",
        "regard",
        "regard, shared out",
        "transformers, our batches",
        "regard, its batches",
    )
    contestants = {name: Contestant(__file__, name) for name in names}
    take_turns(list(contestants.values()), rounds=options.rounds, warm_up=options.warm_up)
    peer = contestants["transformers"]
    rows = [
        [name, f"{one.speed:,.0f}", f"{ratio(one, peer):.2f}×", f"{one.peak:,.0f}"]
        for name, one in contestants.items()
    ]
    print_table(["", "texts/s", "beside transformers", "peak memory, MB"], rows)


if __name__ == "__main__":
    main()
