"""BLEU, written out from its formula; scores are reported by sacrebleu, which it equals."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 4
"""N: n-grams of up to so many tokens."""


@dataclass(frozen=True)
class Bleu:
    """The score, from 0 to 100, and what it is made of."""

    score: float
    precisions: tuple[float, ...]
    """p₁ … p_N, in percent."""
    brevity_penalty: float
    length: int
    """Tokens of all hypotheses."""
    reference_length: int


def bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Bleu:
    """BP · exp(Σₙ log pₙ / N), over a whole corpus of tokenised sentences (Papineni et al. 2002).

        pₙ = Σ min(count in hypothesis, count in reference) / Σ count in hypothesis
        BP = 1 if c > r, else exp(1 − r / c)        c, r: tokens of hypotheses and references

    Clipped: a hypothesis cannot score twice with an n-gram that its reference has once. Counts are
    summed before they are divided, so BLEU is not a mean over sentences. Where no n-gram of some n
    is right, pₙ is 1/2, 1/4, … of what one right n-gram would give, as in mteval and sacrebleu.
    """
    right, found = [0] * LONGEST, [0] * LONGEST
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, LONGEST + 1):
            written, expected = _ngrams(hypothesis, n), _ngrams(reference, n)
            right[n - 1] += (written & expected).total()  # & takes the smaller count of each
            found[n - 1] += written.total()
    length = sum(map(len, hypotheses))
    reference_length = sum(map(len, references))
    precisions, smoothing = [], 1.0
    for one, all_of_them in zip(right, found, strict=True):
        if all_of_them == 0:
            break
        if one == 0:
            smoothing *= 2
        precisions.append(100 * (one or 1 / smoothing) / all_of_them)
    shorter = 0 < length < reference_length
    penalty = math.exp(1 - reference_length / length) if shorter else float(length > 0)
    scored = right[0] > 0 and len(precisions) == LONGEST
    mean = math.exp(sum(map(math.log, precisions)) / LONGEST) if scored else 0.0
    return Bleu(penalty * mean, tuple(precisions), penalty, length, reference_length)


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """How often each stretch of n tokens occurs."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
