"""Self-BLEU: how much the outputs of one model are like each other."""

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU


def self_bleu(texts: Sequence[Sequence[str]]) -> float | None:
    """The mean BLEU of each text with all others as references (Zhu et al. 2018, §4).

    From 0, nothing in common, to 100, all the same; None for fewer than two texts. Texts are given
    as words; BLEU is sacrebleu's of a sentence, over the n-grams that are short enough to occur.
    """
    if len(texts) < 2:
        return None
    metric = BLEU(tokenize="none", effective_order=True)
    joined = [" ".join(text) for text in texts]
    scores = [
        metric.sentence_score(text, [*joined[:number], *joined[number + 1 :]]).score
        for number, text in enumerate(joined)
    ]
    return sum(scores) / len(scores)
