"""Skip-gram with negative sampling: word vectors learned from a text."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.search.word_vectors import WordVectors
from regard.system.errors import UserError

WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True)
class SkipGramOptions:
    """How vectors are learned; the defaults are those of small texts."""

    width: int = 100
    window: int = 5
    negatives: int = 5
    epochs: int = 5
    min_count: int = 5
    """Rarer words are left out."""
    subsample: float = 1e-3
    """Words that are more frequent than this are thinned out."""
    lr: float = 0.01
    batch: int = 2048
    seed: int = 1


class SkipGram(nn.Module):
    """Two vectors per word: v where it is the centre, u where it stands around one.

    For a centre c and a word o near it, with K words n sampled at random,

        L = −log σ(uₒ · v_c) − Σₖ log σ(−uₙ · v_c)     (Mikolov et al. 2013, NeurIPS, eq. 4)

    It tells words that were seen together from words that were not.
    """

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.centre = nn.Embedding(vocab, width, sparse=True)
        self.context = nn.Embedding(vocab, width, sparse=True)
        nn.init.uniform_(self.centre.weight, -0.5 / width, 0.5 / width)  # as in word2vec
        nn.init.zeros_(self.context.weight)

    def forward(
        self,
        centres: Int[Tensor, "B"],
        contexts: Int[Tensor, "B"],
        negatives: Int[Tensor, "B K"],
    ) -> Float[Tensor, "B"]:
        """The loss of each pair."""
        v = self.centre(centres)[:, :, None]  # B D 1
        near = (self.context(contexts)[:, None] @ v)[:, 0, 0]  # B
        far = (self.context(negatives) @ v)[:, :, 0]  # B K
        return -F.logsigmoid(near) - F.logsigmoid(-far).sum(dim=1)


def words_of(line: str) -> list[str]:
    """The words of a line in lower case, without punctuation."""
    return WORD.findall(line.lower())


def learn(
    lines: Iterable[str],
    options: SkipGramOptions | None = None,
    *,
    name: str = "the text",
    report: Callable[[int, float], None] | None = None,
) -> WordVectors:
    """The vector v of every word of a text that is frequent enough, the most frequent first.

    report: called after every epoch with its number and the mean loss of a pair.
    """
    options = options or SkipGramOptions()
    texts = [words_of(line) for line in lines]
    counts = Counter(word for text in texts for word in text)
    kept = [(word, count) for word, count in counts.most_common() if count >= options.min_count]
    if len(kept) < 2:
        raise UserError(
            f"{name} has {len(kept)} words that stand there {options.min_count} times or more: "
            f"too few to learn from. Take a longer text, or a smaller --min-count."
        )
    vocabulary = [word for word, _ in kept]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    ids = [np.array([numbers[w] for w in text if w in numbers], dtype=np.int64) for text in texts]
    frequency = np.array([count for _, count in kept], dtype=np.float64)
    torch.manual_seed(options.seed)
    model = SkipGram(len(vocabulary), options.width)
    _train(model, ids, frequency, options, report)
    vectors = model.centre.weight.detach().numpy()
    return WordVectors(vocabulary, vectors, name)


def _train(
    model: SkipGram,
    texts: Sequence[np.ndarray],
    frequency: np.ndarray,
    options: SkipGramOptions,
    report: Callable[[int, float], None] | None,
) -> None:
    """Adam on the rows that each batch has; the learning rate falls to a tenth."""
    optimiser = torch.optim.SparseAdam(list(model.parameters()), lr=options.lr)
    noise = np.cumsum(frequency**0.75 / (frequency**0.75).sum())  # Mikolov et al. 2013, §2.2
    for epoch in range(options.epochs):
        random = np.random.default_rng([options.seed, epoch])
        for group in optimiser.param_groups:
            group["lr"] = options.lr * (1 - 0.9 * epoch / options.epochs)
        total, pairs = 0.0, 0
        for centres, contexts in _batches(texts, frequency, options, random):
            shape = (len(centres), options.negatives)
            sampled = np.searchsorted(noise, random.random(shape)).clip(max=len(noise) - 1)
            losses = model(*(torch.from_numpy(part) for part in (centres, contexts, sampled)))
            optimiser.zero_grad()
            losses.sum().backward()
            optimiser.step()
            total, pairs = total + losses.sum().item(), pairs + len(centres)
        if not math.isfinite(total):
            raise UserError("the loss is no longer finite: learn with a lower --lr.")
        if report is not None:
            report(epoch + 1, total / max(1, pairs))


def _batches(
    texts: Sequence[np.ndarray],
    frequency: np.ndarray,
    options: SkipGramOptions,
    random: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of centre and context, in random order within some thousands of them."""
    share = frequency / frequency.sum()
    keep = np.minimum(1.0, np.sqrt(options.subsample / share))  # §2.3
    held: list[np.ndarray] = []
    waiting = 0
    for number in random.permutation(len(texts)):
        text = texts[number]
        text = text[random.random(len(text)) < keep[text]]
        pairs = pairs_of(text, random.integers(1, options.window + 1, len(text)))
        held.append(pairs)
        waiting += len(pairs)
        if waiting >= 64 * options.batch:
            yield from _cut(held, options.batch, random)
            held, waiting = [], 0
    if waiting:
        yield from _cut(held, options.batch, random)


def pairs_of(text: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Each word with those up to its own window away, as rows of (centre, context)."""
    parts = []
    for distance in range(1, int(windows.max(initial=0)) + 1):
        first, second = text[:-distance], text[distance:]
        if not len(first):
            break
        reaches = windows[:-distance] >= distance
        reached = windows[distance:] >= distance
        parts += [np.stack([first, second], 1)[reaches], np.stack([second, first], 1)[reached]]
    return np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int64)


def _cut(
    held: list[np.ndarray], size: int, random: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    pairs = np.concatenate(held)
    pairs = pairs[random.permutation(len(pairs))]
    for begin in range(0, len(pairs), size):
        batch = np.ascontiguousarray(pairs[begin : begin + size].T)
        yield batch[0], batch[1]
