"""Decoding options of the commands are the keys of `decode`: names, types and help texts."""

from typing import get_args

import pytest

from regard.config import Decode
from regard.config.strategy import SAMPLING, TITLES, USED_BY, implied_strategy
from regard.system.errors import UserError
from tests.command import refused


def dashed(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def plain(text: str) -> str:
    return " ".join(text.split()).replace("- ", "-").lower()


def test_every_key_of_decode_is_an_option_of_predict_with_its_description(call) -> None:
    shown = plain(call("predict", "--help").out)
    for key, field in Decode.model_fields.items():
        assert dashed(key) in shown
        assert plain(field.description or "") in shown


def test_evaluate_offers_what_changes_one_output_per_line(call) -> None:
    words = call("evaluate", "--help").out.split()
    for key in Decode.model_fields:
        assert (dashed(key) in words) == (key not in ("n_best", "best_of", *SAMPLING))


@pytest.mark.parametrize(
    ("changes", "default", "strategy"),
    [
        ({"beam": 3}, "greedy", "beam"),
        ({"n_best": 2}, "greedy", "beam"),
        ({"n_best": 2}, "sample", None),
        ({"top_p": 0.9, "n_best": 2}, "greedy", "sample"),
        ({"max_new_tokens": 3}, "beam", None),
        ({"beam": 4, "beam_groups": 2}, "greedy", "diverse-beam"),
        ({"best_of": 3, "top_p": 0.9}, "greedy", "best-of"),
        ({"temperature": 0.7}, "beam-sample", None),
        ({"speculate": 4, "top_p": 0.9}, "greedy", "sample"),
        ({"contrast": 0.5}, "beam", "contrastive"),
    ],
)
def test_an_option_implies_the_strategy_that_it_belongs_to(changes, default, strategy) -> None:
    assert implied_strategy(changes, default).get("strategy") == strategy


def test_every_key_belongs_to_strategies_that_there_are() -> None:
    named = {name for strategies in USED_BY.values() for name in strategies}
    assert named == {*TITLES} == {*get_args(Decode.model_fields["strategy"].annotation)}
    assert {*USED_BY} <= {*Decode.model_fields}


def test_a_strategy_that_uses_both_is_named() -> None:
    with pytest.raises(UserError, match=r"top_p with sampling\. strategy=beam-sample uses both"):
        implied_strategy({"n_best": 2, "beam": 2, "top_p": 0.5}, "greedy")


def test_options_of_two_strategies_are_refused() -> None:
    with pytest.raises(UserError, match="beam goes with beam search and seed with sampling"):
        implied_strategy({"beam": 2, "seed": 3}, "greedy")


@pytest.mark.parametrize(
    ("option", "value"), [("--beam", "x"), ("--seed", "1.5"), ("--temperature", "a\nb")]
)
def test_a_value_that_is_no_number_is_shown(call, option: str, value: str) -> None:
    result = call("predict", "runs/any", option, value)
    refused(result, f"Invalid value for '{option}': {value!r}", "See regard --help.")
    assert "Input should" not in result.err
