"""Products in 8 bits: close to those in 32, and equal to the written-out rounding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard import load
from regard.models import Transformer
from regard.nn.int8 import (
    Int8Linear,
    Int8Stacked,
    int8_linear_reference,
    quantize,
    round_rows,
)
from regard.nn.stacked_linear import StackedLinear
from regard.system.errors import UserError
from tests.command import refused
from tests.decoding.table import greedily


@given(
    rows=st.integers(1, 5),
    inner=st.integers(1, 70),
    outer=st.integers(1, 40),
    biased=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_fast_product_equals_the_written_out_one(
    rows: int, inner: int, outer: int, biased: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    x, weight = torch.randn(2, rows, inner), torch.randn(outer, inner)
    bias = torch.randn(outer) if biased else None
    rounded = Int8Linear.of(weight, bias)
    result, expected = rounded(x), int8_linear_reference(x, weight, bias=bias)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result[1, 0], rounded(x[1, 0]))  # one by itself


def test_it_is_close_to_the_product_itself() -> None:
    x, weight, bias = torch.randn(50, 256), torch.randn(90, 256), torch.randn(90)
    exact = F.linear(x, weight, bias)
    assert (Int8Linear.of(weight, bias)(x) - exact).norm() < 0.015 * exact.norm()


def test_each_row_has_its_own_scale() -> None:
    weight = torch.tensor([[1.0, -0.5], [100.0, 25.0], [0.0, 0.0]])
    rounded, scales = round_rows(weight)
    assert rounded.tolist() == [[127, -64], [127, 32], [0, 0]]
    torch.testing.assert_close(scales[:2, 0], torch.tensor([1 / 127, 100 / 127]))


@pytest.mark.parametrize("heights", [(16, 16, 16), (16, 4, 4)])
def test_stacked_maps_are_packed_as_they_are_used(heights: tuple[int, ...]) -> None:
    stacked = StackedLinear(16, heights)
    rounded, x = Int8Stacked(stacked), torch.randn(2, 5, 16)
    for first, end in ((0, None), (0, 1), (1, 3)):
        exact = stacked(x, first=first, end=end)
        assert exact.size(-1) == sum(heights[first:end])
        torch.testing.assert_close(rounded(x, first=first, end=end), exact, atol=0.05, rtol=0.05)


def test_a_transformer_in_8_bits_scores_almost_the_same() -> None:
    model = Transformer(30, 30, d_model=32, n_heads=4, d_ff=64, n_layers=2, tie_embeddings="all")
    source, target = torch.randint(4, 30, (2, 4, 7)).unbind()
    exact = model.eval()(source, target)
    quantize(model)
    logits = model(source, target)
    assert (logits - exact).norm() < 0.05 * exact.norm()
    assert not torch.equal(logits, exact)
    assert len(greedily(model, source, max_new_tokens=5)) == 4


def test_a_processor_that_adds_in_16_bits_multiplies_rightly_too() -> None:
    """As on a processor without VNNI, which oneDNN can be set not to use."""
    program = """
import torch
from regard.nn.int8 import Int8Linear, int8_linear_reference, largest_weight
torch.manual_seed(0)
x, weight = torch.randn(20, 512).abs(), torch.randn(30, 512).abs()
found = Int8Linear.of(weight, None)(x)
torch.testing.assert_close(found, int8_linear_reference(x, weight, bias=None))
exact = x @ weight.T
assert (found - exact).norm() < 0.02 * exact.norm()
print(largest_weight())
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.strip() in ("64", "127")


def test_after_predicting_the_model_can_still_be_called(tiny_run: Path) -> None:
    run = load(tiny_run, quantize="int8")
    run.predict(["3 1 2"])
    assert run.model(torch.tensor([[4, 2]]), torch.tensor([[1]])).isfinite().any()


def test_an_unknown_way_is_refused(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="quantize='int4' is not one of int8"):
        load(tiny_run, quantize="int4")
    with pytest.raises(UserError, match="open the run without quantize"):
        load(tiny_run, quantize="int8").export("ctranslate2", tmp_path / "out")


def test_on_the_command_line(call, tiny_run: Path) -> None:
    assert call("predict", tiny_run, "--quantize", "int8", stdin="3 1 2\n").code == 0
    assert call("evaluate", tiny_run, "--quantize", "int8").code == 0
    refused(call("predict", tiny_run, "--quantize", "int4"), "Invalid value for '--quantize'")


def test_a_recurrent_run_is_refused(call, tiny: list[str]) -> None:
    assert call("train", "sort", "--out", "gru", *tiny, "-s", "model.kind=gru").code == 0
    refused(call("predict", "gru", "--quantize", "int8", stdin="1\n"), "cannot be computed in int8")


def test_the_file_of_weights_is_as_it_was(tiny_run: Path) -> None:
    before = (tiny_run / "model.safetensors").read_bytes()
    run = load(tiny_run, quantize="int8")
    assert len(run.predict(["3 1 2"])) == 1
    assert (tiny_run / "model.safetensors").read_bytes() == before
