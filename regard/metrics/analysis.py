"""Where translations are weak: by length, by sentence, by repeated, copied and missing words."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF

from regard.metrics.output import Output
from regard.metrics.translation import translation_metrics, words_of

REPEATED = 3
"""The n of the n-grams of words that should not occur twice in a sentence."""


Words = tuple[list[str], list[str], list[str]]
"""The words of a source, of its target and of its output."""


@dataclass(frozen=True)
class ByLength:
    """Metrics of the sentences whose source length is in one range."""

    words: str
    sentences: int
    bleu: float
    length_ratio: float


@dataclass(frozen=True)
class Analysis:
    """What BLEU does not show; rates are between 0 and 1."""

    by_length: list[ByLength]
    worst: list[tuple[float, Output]]
    """The sentences with the lowest chrF, each after its chrF."""
    length_ratio: float
    """Generated words per word of the references."""
    repetition_rate: float
    """The fraction of sentences that repeat an n-gram more often than their reference does."""
    copy_rate: float
    """The fraction of generated words that are in the source and not in the reference."""
    empty: int
    """How many outputs have no word."""

    def summary_rows(self) -> list[tuple[str, str]]:
        """The metrics of all sentences, as rows of a table."""
        return [
            ("length ratio", f"{self.length_ratio:.3f} words generated per word of the references"),
            (
                "repetition",
                f"{self.repetition_rate:.2%} of sentences repeat an n-gram of words",
            ),
            (
                "copied",
                f"{self.copy_rate:.2%} of words are of the source, not of the reference",
            ),
            ("empty", f"{self.empty:,} outputs"),
        ]

    def length_rows(self) -> list[tuple[str, str, str, str]]:
        """One row per range of source lengths."""
        return [
            (group.words, f"{group.sentences:,}", f"{group.bleu:.1f}", f"{group.length_ratio:.3f}")
            for group in self.by_length
        ]


def analyse(
    translated: Sequence[Output],
    *,
    languages: tuple[str, str],
    bins: int = 5,
    worst: int = 10,
) -> Analysis:
    """The analysis of a split; languages: those of the source and of the target."""
    source_words, target_words = (words_of(language) for language in languages)
    words = [
        (
            source_words(sentence.source),
            target_words(sentence.target),
            target_words(sentence.output),
        )
        for sentence in translated
    ]
    generated = sum(len(output) for _, _, output in words)
    expected = sum(len(target) for _, target, _ in words)
    copied = sum(
        (Counter(output) & (Counter(source) - Counter(target))).total()
        for source, target, output in words
    )
    return Analysis(
        by_length=_by_length(translated, words, languages[1], bins),
        worst=_worst(translated, worst),
        length_ratio=generated / max(1, expected),
        repetition_rate=sum(_repeats(output) > _repeats(target) for _, target, output in words)
        / max(1, len(words)),
        copy_rate=copied / max(1, generated),
        empty=sum(not output for _, _, output in words),
    )


def _by_length(
    translated: Sequence[Output], words: Sequence[Words], language: str, bins: int
) -> list[ByLength]:
    """The sentences sorted by source length, in groups of about equal size."""
    order = sorted(range(len(words)), key=lambda number: len(words[number][0]))
    lengths = [len(words[number][0]) for number in order]
    count = max(1, min(bins, len(order)))
    edges = [0]
    for number in range(1, count + 1):
        edge = max(edges[-1], round(len(order) * number / count))
        while 0 < edge < len(order) and lengths[edge] == lengths[edge - 1]:
            edge += 1  # sentences of one length stay together
        if edge > edges[-1]:
            edges.append(edge)
    groups = []
    for group in (order[begin:end] for begin, end in itertools.pairwise(edges)):
        metrics = translation_metrics(
            [translated[number].output for number in group],
            [translated[number].target for number in group],
            language=language,
            names=["bleu"],
        )
        generated = sum(len(words[number][2]) for number in group)
        expected = sum(len(words[number][1]) for number in group)
        shortest, longest = len(words[group[0]][0]), len(words[group[-1]][0])
        ratio = generated / max(1, expected)
        groups.append(ByLength(f"{shortest}–{longest}", len(group), metrics["bleu"], ratio))
    return groups


def _worst(translated: Sequence[Output], count: int) -> list[tuple[float, Output]]:
    """The `count` sentences with the lowest chrF, lowest first."""
    metric = CHRF()
    with_chrf = [
        (metric.sentence_score(sentence.output, [sentence.target]).score, sentence)
        for sentence in translated
    ]
    return sorted(with_chrf, key=lambda pair: pair[0])[:count]


def _repeats(words: Sequence[str]) -> int:
    """How many n-grams of a sentence are repetitions of an earlier one."""
    ngrams = Counter(tuple(words[i : i + REPEATED]) for i in range(len(words) - REPEATED + 1))
    return sum(count - 1 for count in ngrams.values())
