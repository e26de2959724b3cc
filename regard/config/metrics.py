"""Every metric, declared once: its name, which direction is better, what it needs, how it is shown.

Configuration, callbacks, tables and pictures read this table; the functions that compute the
metrics stand in `regard.metrics` and in the tasks.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

Panel = Literal["loss", "accuracy"]
"""The panels of the training curves that metrics are drawn in."""


@dataclass(frozen=True)
class Metric:
    """One metric: fractions are between 0 and 1, BLEU, chrF and TER between 0 and 100."""

    name: str
    title: str
    """What people call it, as in a legend."""
    _: KW_ONLY
    higher_is_better: bool = True
    generated: bool = False
    """Whether outputs must be generated to compute it."""
    decimals: int = 4
    """Digits shown after the point."""
    panel: Panel | None = None
    """The panel of the training curves that it is drawn in."""
    complement: bool = False
    """Whether 1 − value is drawn, as of an error rate among accuracies."""

    def shown(self, value: float) -> str:
        """The value as a table shows it."""
        return f"{value:.{self.decimals}f}"

    def gain(self, value: float) -> float:
        """A number that is higher where the metric is better."""
        return value if self.higher_is_better else -value


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("loss", "loss per token", higher_is_better=False, panel="loss"),
        Metric("ppl", "perplexity", higher_is_better=False),
        Metric("bits_per_char", "bits per character", higher_is_better=False),
        Metric("bits_per_byte", "bits per byte", higher_is_better=False),
        Metric("accuracy", "accuracy", panel="accuracy"),
        Metric("token_accuracy", "token accuracy", panel="accuracy"),
        Metric("mlm_accuracy", "masked-token accuracy", panel="accuracy"),
        Metric("nsp_accuracy", "next-sentence accuracy", panel="accuracy"),
        Metric("sop_accuracy", "sentence-order accuracy", panel="accuracy"),
        Metric("mlm_loss", "loss per masked token", higher_is_better=False),
        Metric("nsp_loss", "loss per pair, next sentence", higher_is_better=False),
        Metric("sop_loss", "loss per pair, order", higher_is_better=False),
        Metric("unigram_loss", "loss by token frequencies alone", higher_is_better=False),
        Metric("gap_closed", "share of the unigram loss that is gone"),
        Metric("exact_match", "whole line", generated=True, panel="accuracy"),
        Metric(
            "wer",
            "whole line",
            higher_is_better=False,
            generated=True,
            panel="accuracy",
            complement=True,
        ),
        Metric("per", "phoneme error rate", higher_is_better=False, generated=True),
        Metric("bleu", "BLEU", generated=True),
        Metric("bleu_lc", "BLEU without case", generated=True),
        Metric("chrf", "chrF", generated=True),
        Metric("ter", "TER", higher_is_better=False, generated=True),
        Metric("f1", "F1", panel="accuracy"),
        Metric("precision", "precision"),
        Metric("recall", "recall"),
        Metric("em", "exact match", panel="accuracy"),
        Metric("spearman", "Spearman's ρ"),
        Metric("pearson", "Pearson's r"),
    )
}
"""All metrics, by name."""

TASK_METRICS: dict[str, tuple[str, ...]] = {
    "translate": ("loss", "token_accuracy"),
    "classify": ("loss", "accuracy", "f1", "precision", "recall"),
    "match": ("loss", "accuracy", "f1", "precision", "recall"),
    "lm": ("loss", "token_accuracy"),
    "mlm": ("loss", "mlm_loss", "mlm_accuracy"),
    "embed": (),
    "tag": ("loss", "token_accuracy", "f1", "precision", "recall"),
    "span": ("loss", "accuracy", "em", "f1"),
}
"""What train.metric may be for each task; translate has those of its outputs as well."""

SCORE_METRICS = ("loss", "pearson", "spearman")
"""The same for match, where data.score is set."""

PAIR_METRICS: dict[str, tuple[str, ...]] = {
    "nsp": ("nsp_loss", "nsp_accuracy"),
    "sop": ("sop_loss", "sop_accuracy"),
    "none": (),
}
"""What is measured of pairs of texts, by `data.sentence_pairs`."""

OUTPUT_METRICS: dict[str, tuple[str, ...]] = {
    "exact": ("exact_match",),
    "pronunciation": ("wer", "per"),
    "translation": ("bleu", "bleu_lc", "chrf", "ter"),
}
"""What is measured of generated outputs, by `data.scores`."""

SELECTABLE: tuple[str, ...] = tuple(
    name
    for name in METRICS
    if any(
        name in names
        for names in (
            *TASK_METRICS.values(),
            *PAIR_METRICS.values(),
            *OUTPUT_METRICS.values(),
            SCORE_METRICS,
        )
    )
)
"""What train.metric may be for some task."""


def shown(name: str, value: float | str) -> str:
    """A metric, or the signature of one, as a table shows it."""
    if isinstance(value, str):
        return value
    return METRICS[name].shown(value) if name in METRICS else f"{value:.4f}"
