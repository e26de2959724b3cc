"""Requests and answers: typed predictions, counts that add up, lines that are refused by name."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regard import load
from regard.commands.terminal import print_json
from regard.config import Decode
from regard.system.errors import UserError
from regard.tasks import Classification, Continuation, Counts, Request, Translation


def test_many_threads_get_what_one_gets(tiny_run: Path) -> None:
    """One run answers many requests at once: predictions and counts are each request's own."""
    run = load(tiny_run)
    requests = [
        [" ".join(str(n * k % 10) for n in range(1 + k % 5)) for k in range(first, first + 12)]
        for first in range(8)
    ]
    alone = [run.answer(lines) for lines in requests]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run.answer, requests))
    for expected, result in zip(alone, together, strict=True):
        assert [p.outputs for p in result.predictions] == [p.outputs for p in expected.predictions]
        assert result.counts == expected.counts
    whole = run.answer([line for lines in requests for line in lines])
    assert sum((answer.counts for answer in alone), Counts()) == whole.counts
    assert whole.counts.tokens == sum(len(line.split()) for lines in requests for line in lines)


def test_refused_lines_come_back_with_their_numbers(tiny_run: Path) -> None:
    run = load(tiny_run)
    lines = ["3 1 2", "x y", "", "1 \udcff", "2"]
    with pytest.raises(UserError, match="lines:12: 'x' is not in the vocabulary"):
        run.answer(lines, name="lines", first=10)
    answer = run.answer(lines, name="lines", first=10, on_bad_line="skip")
    assert [refusal.line for refusal in answer.refusals] == [12, 14]
    assert answer.refusals[1].sentence.startswith("lines:14: not UTF-8 text")
    assert [bool(p.outputs) for p in answer.predictions] == [True, False, False, False, True]
    assert answer.counts.tokens == 4
    assert answer.predictions[3].as_json()["input"] == "1 ?"


def test_counts_become_sentences() -> None:
    assert Counts().warnings() == []
    counts = Counts(tokens=5, unknown=1) + Counts(tokens=5, outputs=2, cut=1)
    assert counts.warnings() == [
        "the input: 1 of 10 tokens are not in the vocabulary, and are read as <unk>.",
        "1 of 2 outputs were cut at max_new_tokens.",
    ]


def test_a_prediction_is_one_line_and_its_json_has_the_keys_of_its_task() -> None:
    two = Translation("a", ["b\tc", "d\ne"], [-1.0, -2.0], [True, False])
    assert (two.text, two.best) == ("b c\td e", "b\tc")
    assert list(two.as_json()) == ["input", "outputs", "scores", "finished"]
    aligned = Translation("a", ["b c"], [-1.0], [True], [(0, 0), (0, 1)])
    assert aligned.text == "b c\t0-0 0-1"
    assert aligned.as_json()["alignment"] == [(0, 0), (0, 1)]
    assert Continuation("a", ["a b"], [-1.0], [True]).as_json() == {
        "input": "a",
        "outputs": ["a b"],
        "scores": [-1.0],
        "finished": [True],
    }
    assert Classification("a", ["x"], [0.5]).as_json() == {
        "input": "a",
        "outputs": ["x"],
        "scores": [0.5],
    }
    for empty in (Translation("a"), Continuation("a"), Classification("a")):
        assert (empty.text, empty.best, empty.as_json()["outputs"]) == ("", "", [])


def test_a_request_is_a_list_of_lines() -> None:
    with pytest.raises(TypeError, match="a list of lines, not one string"):
        Request("3 1 2", Decode())


def test_an_evaluation_generates_only_what_is_needed(tiny_run: Path) -> None:
    run = load(tiny_run)
    whole = run.evaluation("valid", max_new_tokens=2)
    assert whole.examples == len(whole.outputs)
    assert any("outputs were cut at max_new_tokens" in sentence for sentence in whole.warnings)
    quick = run.task.evaluate(run.model, "valid", engine=run.engine, metrics=["loss"])
    assert (quick.outputs, quick.warnings) == ([], [])
    assert quick.metrics["loss"] == whole.metrics["loss"]
    assert "exact_match" in whole.metrics.keys() - quick.metrics.keys()


def test_predictions_are_plain_json(tiny_run: Path, capsys: pytest.CaptureFixture) -> None:
    (prediction,) = load(tiny_run).predictions(["3 1 2"], aligned=True)
    print_json(prediction.as_json())
    assert json.loads(capsys.readouterr().out)["outputs"] == prediction.outputs


def test_an_answer_counts_nothing_of_earlier_ones(tiny_run: Path) -> None:
    run = load(tiny_run)
    cut = {"max_new_tokens": 1}
    first = run.answer(["3 1 2", "x", "5 4"], decoding=cut, on_bad_line="skip")
    assert first.counts.cut > 0
    assert first.refusals
    assert run.answer([""], decoding=cut).counts == Counts()
    again = run.answer(["3 1 2", "x", "5 4"], decoding=cut, on_bad_line="skip")
    assert (again.counts, again.refusals) == (first.counts, first.refusals)


@pytest.mark.parametrize("decoding", [{}, {"beam": 3}, {"strategy": "sample"}])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_of_weights_that_are_no_numbers_is_refused(tiny_run, decoding, value) -> None:
    run = load(tiny_run)
    next(run.model.parameters()).data.fill_(value)
    with pytest.raises(UserError, match="gives NaN in place of probabilities: its weights are"):
        run.predict(["3 1 2"], **decoding)


def test_a_device_that_does_not_exist_is_named(tiny_run: Path) -> None:
    with pytest.raises(UserError, match="device='tpu' is not one of auto, cpu, cuda, mps"):
        load(tiny_run, device="tpu")


def test_an_ensemble_is_not_traced(tiny_run: Path) -> None:
    run = load(tiny_run)
    with pytest.raises(UserError, match="An ensemble cannot be traced: trace its runs one by one"):
        run.together_with([load(tiny_run)]).trace("3 1 2")


@pytest.mark.parametrize("text", ["3 \udcff", "3\0"])
def test_what_cannot_be_read_is_no_prefix_and_not_traced(tiny_run: Path, text: str) -> None:
    run = load(tiny_run)
    with pytest.raises(UserError, match="prefix: not UTF-8 text"):
        run.answer(["3 1 2"], prefix=text)
    with pytest.raises(UserError, match="trace: not UTF-8 text"):
        run.trace(text)
    with pytest.raises(UserError, match="line:1: not UTF-8 text"):
        run.answer([text])
