"""BLEU, written out from its formula; it equals sacrebleu, whose values are reported."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 4
"""N: the most tokens of an n-gram."""


@dataclass(frozen=True)
class Bleu:
    """BLEU, from 0 to 100, and its components."""

    score: float
    precisions: tuple[float, ...]
    """p₁ … p_N, in percent."""
    brevity_penalty: float
    length: int
    """How many tokens all hypotheses have."""
    reference_length: int


def bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Bleu:
    """BP · exp(Σₙ log pₙ / N), over a whole corpus of tokenised sentences (Papineni et al. 2002).

        pₙ = Σ min(count in hypothesis, count in reference) / Σ count in hypothesis
        BP = 1 if c > r, else exp(1 − r / c)        c, r: tokens of hypotheses and references

    Counts are clipped: an n-gram that the reference has once is right once. They are summed over
    the corpus before they are divided, so BLEU is not a mean over sentences. If no n-gram of some n
    is right, pₙ is 1/2, 1/4, … of what one right n-gram would give, as in mteval and sacrebleu.
    """
    right, total = [0] * LONGEST, [0] * LONGEST
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, LONGEST + 1):
            generated, expected = _ngrams(hypothesis, n), _ngrams(reference, n)
            right[n - 1] += (generated & expected).total()  # & takes the smaller count of each
            total[n - 1] += generated.total()
    length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    precisions, smoothing = [], 1.0
    for right_count, count in zip(right, total, strict=True):
        if count == 0:
            break
        if right_count == 0:
            smoothing *= 2
        precisions.append(100 * (right_count or 1 / smoothing) / count)
    shorter = 0 < length < reference_length
    penalty = math.exp(1 - reference_length / length) if shorter else float(length > 0)
    defined = right[0] > 0 and len(precisions) == LONGEST
    mean = math.exp(sum(map(math.log, precisions)) / LONGEST) if defined else 0.0
    return Bleu(penalty * mean, tuple(precisions), penalty, length, reference_length)


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """How often each n-gram occurs."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
