"""Metrics are declared once, and everything that names one finds it there."""

from typing import get_args

import pytest

from regard.config import METRICS, OUTPUT_METRICS, TASK_METRICS, Train
from regard.config.metrics import PAIR_METRICS, SCORE_METRICS, shown
from regard.look.pictures import curves

LOWER_IS_BETTER = {
    *("loss", "ppl", "bits_per_char", "bits_per_byte", "wer", "per", "ter"),
    *("mlm_loss", "nsp_loss", "sop_loss", "unigram_loss"),
}


def test_every_metric_of_a_task_is_declared() -> None:
    for names in (*TASK_METRICS.values(), *PAIR_METRICS.values(), *OUTPUT_METRICS.values()):
        assert set(names) <= METRICS.keys()
    assert all(METRICS[name].generated for names in OUTPUT_METRICS.values() for name in names)
    assert not any(METRICS[name].generated for names in TASK_METRICS.values() for name in names)


def test_errors_and_losses_are_better_when_lower() -> None:
    assert {name for name, metric in METRICS.items() if not metric.higher_is_better} == (
        LOWER_IS_BETTER
    )
    assert METRICS["wer"].gain(0.1) > METRICS["wer"].gain(0.2)
    assert METRICS["bleu"].gain(30.0) > METRICS["bleu"].gain(20.0)


def test_a_run_may_be_selected_by_what_some_task_measures() -> None:
    choices = set(get_args(Train.model_fields["metric"].annotation))
    tables = (*TASK_METRICS.values(), *PAIR_METRICS.values(), SCORE_METRICS)
    measured = {name for names in tables for name in names}
    assert choices == measured | {name for names in OUTPUT_METRICS.values() for name in names}


def test_signatures_are_shown_as_they_are_and_values_with_their_decimals() -> None:
    assert shown("bleu_signature", "nrefs:1") == "nrefs:1"
    assert shown("loss", 0.5) == "0.5000"
    assert shown("mlm_loss", 0.5) == "0.5000"


@pytest.mark.parametrize(("name", "value"), [("exact_match", 0.75), ("wer", 0.25)])
def test_curves_show_the_share_of_right_lines_beside_that_of_right_tokens(name, value) -> None:
    part = {"loss": 1.0, "token_accuracy": 0.5}
    line = {"step": 1, "lr": 0.1, "train": part, "valid": part | {name: value}}
    loss, accuracy, _ = curves([line]).axes
    drawn = {drawn.get_label(): drawn.get_ydata()[0] for drawn in accuracy.get_lines()}
    assert drawn == {"train": 0.5, "valid": 0.5, "valid, whole line": 0.75}
    assert len(loss.get_lines()) == 2
