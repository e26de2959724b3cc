"""What a run shows of itself: its own output or a given one, whole or with parts turned off."""

from pathlib import Path

import pytest
import torch

from regard.nn import Trace
from regard.runs.run import Run, load
from regard.system.errors import UserError

CROSS = "decoder.layers.0.cross_attention"


@pytest.fixture
def opened(tiny_run: Path) -> Run:
    return load(tiny_run)


def test_a_trace_of_a_given_output_reads_that_output(opened: Run) -> None:
    trace = opened.trace("3 1 2", output="2 2 1")
    assert trace.tokens["target"][1:] == ["2", "2", "1"]
    assert trace.tokens["output"] == ["2", "2", "1", "</s>"]
    assert trace[CROSS]["weights"].shape[-2:] == (4, len(trace.tokens["source"]))


def test_the_output_of_a_model_without_a_part_is_what_that_model_generates(opened: Run) -> None:
    part = "decoder.layers.0.self_attention"
    trace = opened.trace("3 1 2", without=[part])
    with torch.no_grad():
        opened.model.decoder.layers[0].self_attention.output.weight.zero_()
        opened.model.decoder.layers[0].self_attention.output.bias.zero_()
    expected = opened.trace("3 1 2")
    assert trace.tokens == expected.tokens
    torch.testing.assert_close(trace["output"]["logits"], expected["output"]["logits"])


def test_what_is_turned_off_is_not_turned_off_afterwards(opened: Run) -> None:
    before = opened.trace("3 1 2")["output"]["logits"]
    opened.trace("3 1 2", without=["encoder.layers.0", f"{CROSS}.heads.0"])
    torch.testing.assert_close(opened.trace("3 1 2")["output"]["logits"], before)


def test_a_part_that_is_not_there_is_refused_by_name(opened: Run) -> None:
    with pytest.raises(UserError, match=r"cross_atention' \(did you mean"):
        opened.trace("3 1 2", without=["decoder.layers.0.cross_atention"])
    with pytest.raises(UserError, match=r"cross_attention.heads.99'"):
        opened.trace("3 1 2", without=[f"{CROSS}.heads.99"])
    with pytest.raises(TypeError, match="a list of paths"):
        opened.trace("3 1 2", without="encoder.layers.0")


def test_a_language_model_reads_a_given_output_after_its_prompt(text_runs: Path) -> None:
    run = load(text_runs / "shakespeare")
    given, whole = run.trace("ROMEO", output=": the"), run.trace("ROMEO: the")
    assert given.tokens == whole.tokens
    path = "decoder.layers.1.self_attention"
    off = run.trace("ROMEO: the", without=[f"{path}.edges.3.1"])
    assert (off[path]["weights"][0, :, 3, 1] == 0).all()
    assert isinstance(off, Trace)
