"""The metrics of generated outputs, as `data.scores` names them."""

from collections.abc import Callable, Collection, Sequence

from regard.config import OUTPUT_METRICS, Data
from regard.data.splits import Pair
from regard.metrics.errors import phoneme_error_rate, word_error_rate
from regard.metrics.exact import exact_match
from regard.metrics.translation import signatures, translation_metrics

FUNCTIONS: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], float]] = {
    "exact_match": exact_match,
    "wer": word_error_rate,
    "per": phoneme_error_rate,
}
"""Metrics of outputs that have several right answers; those of translations are sacrebleu's."""


def needed(data: Data, metrics: Collection[str] | None) -> list[str]:
    """The metrics of outputs that are measured with this data, if any is needed; None: all are.

    Those of translations take a while: only the ones that are needed.
    """
    names = OUTPUT_METRICS[data.scores]
    wanted = [name for name in names if metrics is None or name in metrics]
    return wanted if data.scores == "translation" or not wanted else list(names)


def measure(
    names: Sequence[str],
    pairs: Sequence[Pair],
    outputs: dict[str, str],
    *,
    data: Data,
    normal: Callable[[str], str],
) -> dict[str, float]:
    """These metrics of the output for each source.

    Translations are compared as they are read, with the target as it stands in the file. Of all
    else, outputs and targets are compared in the `normal` form that the tokenizer gives them, and
    a source that stands there more than once has several right targets: any of them counts.
    """
    if data.scores == "translation":
        return translation_metrics(
            [outputs[source] for source, _ in pairs],
            [target for _, target in pairs],
            language=data.languages[1],
            names=names,
        )
    references: dict[str, list[str]] = {}
    for source, target in pairs:
        references.setdefault(source, []).append(normal(target))
    hypotheses = [outputs[source] for source in references]
    return {name: FUNCTIONS[name](hypotheses, list(references.values())) for name in names}


def signatures_of(data: Data) -> dict[str, str]:
    """How metrics are computed, where a value cannot be compared without knowing it."""
    return signatures(data.languages[1]) if data.scores == "translation" else {}
