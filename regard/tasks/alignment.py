"""Which word of an output comes from which of its source, as the decoder's attention has it."""

import itertools
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.examples import Ids
from regard.metrics.translation import tokenizer_of
from regard.nn import Trace
from regard.system.errors import UserError

WordAlignment = list[tuple[int, int]]
"""(word of the source, word of the output), counted from 0."""

Words = Callable[[Ids], Sequence[str]]
"""Token ids -> the words of their text."""


def cross_attention(trace: Trace) -> Float[Tensor, "B T S"] | None:
    """How much each output token attends to each source token: the mean over heads of one layer.

    The last layer but one of a Transformer, which is most like an alignment (Garg et al. 2019,
    §4.2); the only one of a recurrent decoder. None if nothing attends to the source.
    """
    layers = [weights for path, weights in trace.attention().items() if "cross_attention" in path]
    return layers[max(0, len(layers) - 2)].mean(dim=1) if layers else None


def align(
    weights: Float[Tensor, "T S"],
    source: Ids,
    output: Ids,
    *,
    source_words: Words,
    output_words: Words,
) -> WordAlignment:
    """Each output token with the source token that it attends to most, as pairs of words."""
    in_source, in_output = _words_of(source, source_words), _words_of(output, output_words)
    attended = weights[: len(output), : len(source)].argmax(dim=1).tolist()
    return sorted(
        {
            pair
            for token, place in enumerate(attended)
            for pair in itertools.product(in_source[place], in_output[token])
        }
    )


def _words_of(ids: Ids, words: Words) -> list[range]:
    """The words that each token adds to the text before it; if none, the one that it continues."""
    counts = [len(words(ids[:end])) for end in range(len(ids) + 1)]
    return [
        range(before if after > before else max(0, after - 1), max(1, after))
        for before, after in itertools.pairwise(counts)
    ]


def words_or_characters(language: str) -> Callable[[str], Sequence[str]]:
    """What is aligned: words, or the characters of a language that puts no spaces between words."""
    spaced = tokenizer_of(language) not in ("zh", "ja-mecab")
    return str.split if spaced else lambda text: "".join(text.split())


def align_all(
    model: Callable[..., Tensor],
    sources: Sequence[Int[Tensor, "1 S"]],
    targets: Sequence[Int[Tensor, "1 T"]],
    *,
    source_words: Words,
    output_words: Words,
) -> list[WordAlignment]:
    """The alignment of each target, `<s> output`, with its source, `source </s>`."""
    alignments = []
    for source, target in zip(sources, targets, strict=True):
        trace = Trace()
        with torch.inference_mode():
            model(source, target, trace=trace)
        weights = cross_attention(trace)
        if weights is None:
            raise UserError("align needs a model that attends to its source.")
        alignments.append(
            align(
                weights[0],
                source[0, :-1].tolist(),
                target[0, 1:].tolist(),
                source_words=source_words,
                output_words=output_words,
            )
        )
    return alignments
