"""Run directories written by earlier versions open, predict the same and resume.

Each folder of tests/runs/old was written with schema_version 1, by four updates; expected.json
holds what that version predicted and measured, and after-8-steps.safetensors the weights that it
reached when it was resumed to eight updates.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard import config
from regard.config.migration import SCHEMA
from regard.runs.directory import read_config
from regard.runs.trainer import train
from regard.system.tensors import read_tensors, weights

OLD = sorted(path for path in (Path(__file__).parent / "old").iterdir() if path.is_dir())
ROUNDING = 1e-5
"""Other kernels may add in another order."""


def name(path: Path) -> str:
    return path.name


def expected(path: Path) -> dict:
    return json.loads((path / "expected.json").read_text())


@pytest.mark.parametrize("path", OLD, ids=name)
def test_an_old_run_predicts_what_it_did(path: Path) -> None:
    run = regard.load(path)
    before = expected(path)
    lines = [prediction["input"] for prediction in before["predictions"]]
    assert run.predict(lines) == before["predict"]
    options = {"beam": 2, "n_best": 2} if run.task.generates else {}
    for prediction, earlier in zip(
        run.predictions(lines, decoding=options), before["predictions"], strict=True
    ):
        now = prediction.as_json()
        assert now["outputs"] == earlier["outputs"]
        assert now["scores"] == pytest.approx(earlier["scores"], abs=ROUNDING)


@pytest.mark.parametrize("path", OLD, ids=name)
def test_an_old_run_measures_what_it_did(path: Path, all_held_out: None) -> None:
    metrics, before = regard.load(path).evaluate("valid")["metrics"], expected(path)["metrics"]
    then = {name: metrics[name] for name in before}  # some metrics were added since
    assert then == pytest.approx(before, abs=ROUNDING)


@pytest.mark.parametrize("path", OLD, ids=name)
def test_an_old_run_resumes_to_the_weights_it_would_have_reached(
    path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(path, out)
    longer = config.override(
        read_config(out), ["train.steps=8", "train.eval_every=8"], where=str(out)
    )
    train(longer, out, resume=True)
    assert read_config(out).schema_version == SCHEMA
    reached, _ = read_tensors(out / "checkpoints/step-8/model.safetensors")
    before, _ = read_tensors(path / "after-8-steps.safetensors")
    assert reached.keys() == before.keys()
    for weight, values in reached.items():
        if weight.endswith("attention.projection.bias"):
            # A key's bias adds the same to all attention scores of a query: its gradient is 0, and
            # what Adam makes of the rounding there is as large as any step.
            values, before[weight] = (bias.view(3, -1)[::2] for bias in (values, before[weight]))
        torch.testing.assert_close(values, before[weight], rtol=0, atol=ROUNDING)
    assert weights(regard.load(out).model).keys() == reached.keys()


def test_a_configuration_of_version_1_trains_on_what_it_did() -> None:
    values = {"schema_version": 1, "train": {"steps": 1, "batch_size": 1}}
    resolved = config.validate(values, where="old.yaml")
    assert (resolved.data.train, resolved.data.valid, resolved.data.test) == ("sort",) * 3
    assert resolved.schema_version == SCHEMA
    assert values == {"schema_version": 1, "train": {"steps": 1, "batch_size": 1}}
