"""Which word of an output comes from which of its source, as the decoder's attention has it."""

import itertools
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.examples import Ids
from regard.metrics.translation import tokenizer_of
from regard.nn import Trace

WordAlignment = list[tuple[int, int]]
"""(word of the source, word of the output), counted from 0."""


def cross_attention(trace: Trace) -> Float[Tensor, "B T S"] | None:
    """How much each output token looks at each source token: the mean over heads of one layer.

    The last layer but one of a Transformer, which looks most like an alignment (Garg et al. 2019,
    §4.2); the only one of a recurrent decoder. Nothing, where there is no attention to the source.
    """
    found = [weights for path, weights in trace.attention().items() if "cross_attention" in path]
    return found[max(0, len(found) - 2)].mean(dim=1) if found else None


def align(
    weights: Float[Tensor, "T S"],
    source: Ids,
    output: Ids,
    *,
    source_words: Callable[[Ids], Sequence[str]],
    output_words: Callable[[Ids], Sequence[str]],
) -> WordAlignment:
    """Every token of the output with the source token that it looks at most, as pairs of words."""
    read, written = _of_words(source, source_words), _of_words(output, output_words)
    looked_at = weights[: len(output), : len(source)].argmax(dim=1).tolist()
    return sorted(
        {pair for n, at in enumerate(looked_at) for pair in itertools.product(read[at], written[n])}
    )


def _of_words(ids: Ids, words: Callable[[Ids], Sequence[str]]) -> list[range]:
    """The words that each token adds to the text before it; if none, the one that it goes on."""
    counts = [len(words(ids[:end])) for end in range(len(ids) + 1)]
    return [
        range(before if after > before else max(0, after - 1), max(1, after))
        for before, after in itertools.pairwise(counts)
    ]


def words_or_characters(language: str) -> Callable[[str], Sequence[str]]:
    """What is aligned: words, or the characters of a language that puts no spaces between them."""
    spaced = tokenizer_of(language) not in ("zh", "ja-mecab")
    return str.split if spaced else lambda text: "".join(text.split())


def attended(model: Callable[..., Tensor], source: Tensor, target: Tensor) -> Tensor | None:
    """The cross-attention of a model that reads a source and is given its output."""
    trace = Trace()
    with torch.inference_mode():
        model(source, target, trace=trace)
    return cross_attention(trace)
