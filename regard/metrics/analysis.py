"""Where translations are weak: by length, by sentence, by what they repeat, copy and leave out."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sacrebleu.metrics.chrf import CHRF

from regard.metrics.translation import translation_scores, words_of

REPEATED = 3
"""Words of a stretch that should not come twice in a sentence."""


Words = tuple[list[str], list[str], list[str]]
"""Of a source, of its target and of its output."""


class Translated(NamedTuple):
    """A sentence, what it should become, and what was made of it."""

    source: str
    target: str
    output: str


@dataclass(frozen=True)
class ByLength:
    """The sentences whose source has so many words."""

    words: str
    sentences: int
    bleu: float
    length_ratio: float


@dataclass(frozen=True)
class Analysis:
    """What the scores do not say; shares are between 0 and 1."""

    by_length: list[ByLength]
    worst: list[tuple[float, Translated]]
    """The lowest chrF, and the sentences."""
    length_ratio: float
    """Words written for each word of the references."""
    repetition_rate: float
    """Sentences in which a stretch of words comes twice that does not in the reference."""
    copy_rate: float
    """Written words that stand in the source and not in the reference."""
    empty: int
    """Outputs without a word."""

    def summary_rows(self) -> list[tuple[str, str]]:
        """What there is one number of, as rows of a table."""
        return [
            ("length ratio", f"{self.length_ratio:.3f} words written for each of the reference"),
            ("repetition", f"{self.repetition_rate:.2%} of sentences repeat a stretch of words"),
            ("copied", f"{self.copy_rate:.2%} of words are the source's, and not the reference's"),
            ("empty", f"{self.empty:,} outputs"),
        ]

    def length_rows(self) -> list[tuple[str, str, str, str]]:
        """A row for short sentences, for longer ones, …"""
        return [
            (one.words, f"{one.sentences:,}", f"{one.bleu:.1f}", f"{one.length_ratio:.3f}")
            for one in self.by_length
        ]


def analyse(
    translated: Sequence[Translated],
    *,
    languages: tuple[str, str],
    bins: int = 5,
    worst: int = 10,
) -> Analysis:
    """All of it, over the sentences of a split; languages: of the source and of the target."""
    read, written_in = (words_of(language) for language in languages)
    words = [
        (read(one.source), written_in(one.target), written_in(one.output)) for one in translated
    ]
    written = sum(len(output) for _, _, output in words)
    expected = sum(len(target) for _, target, _ in words)
    copied = sum(
        (Counter(output) & (Counter(source) - Counter(target))).total()
        for source, target, output in words
    )
    return Analysis(
        by_length=_by_length(translated, words, languages[1], bins),
        worst=_worst(translated, worst),
        length_ratio=written / max(1, expected),
        repetition_rate=sum(_repeats(output) > _repeats(target) for _, target, output in words)
        / max(1, len(words)),
        copy_rate=copied / max(1, written),
        empty=sum(not output for _, _, output in words),
    )


def _by_length(
    translated: Sequence[Translated], words: Sequence[Words], language: str, bins: int
) -> list[ByLength]:
    """The sentences in order of length, in parts of about equal number."""
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
    found = []
    for part in (order[begin:end] for begin, end in itertools.pairwise(edges)):
        scores = translation_scores(
            [translated[number].output for number in part],
            [translated[number].target for number in part],
            language=language,
            names=["bleu"],
        )
        written = sum(len(words[number][2]) for number in part)
        expected = sum(len(words[number][1]) for number in part)
        shortest, longest = len(words[part[0]][0]), len(words[part[-1]][0])
        found.append(
            ByLength(f"{shortest}–{longest}", len(part), scores["bleu"], written / max(1, expected))
        )
    return found


def _worst(translated: Sequence[Translated], count: int) -> list[tuple[float, Translated]]:
    metric = CHRF()
    scored = [(metric.sentence_score(one.output, [one.target]).score, one) for one in translated]
    return sorted(scored, key=lambda pair: pair[0])[:count]


def _repeats(words: Sequence[str]) -> int:
    """How often a stretch of words comes again."""
    stretches = Counter(tuple(words[i : i + REPEATED]) for i in range(len(words) - REPEATED + 1))
    return sum(count - 1 for count in stretches.values())
