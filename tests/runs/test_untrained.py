"""A run need not have been trained here: an imported model has no `train` and no data."""

import shutil
from pathlib import Path

import pytest
import yaml

import regard
from regard.runs.trainer import train
from regard.system.errors import UserError
from tests.command import refused


@pytest.fixture
def untrained(tiny_run: Path, tmp_path: Path) -> Path:
    """The tiny run as an importer would write it: configuration, tokenizer, weights."""
    path = tmp_path / "imported"
    path.mkdir()
    for name in ("tokenizer.json", "model.safetensors"):
        shutil.copy(tiny_run / name, path / name)
    values = yaml.safe_load((tiny_run / "config.yaml").read_text())
    for key in ("train", "data", "about", "recipe"):
        del values[key]
    (path / "config.yaml").write_text(yaml.safe_dump(values))
    return path


def test_an_untrained_run_predicts_as_the_trained_one(untrained: Path, tiny_run: Path) -> None:
    lines = ["3 1 2", "", "9 8 7"]
    run = regard.load(untrained)
    assert run.predict(lines, beam=2) == regard.load(tiny_run).predict(lines, beam=2)
    assert run.trace("3 1 2").attention()
    assert run.metrics() == []


def test_an_untrained_run_is_evaluated_on_data_that_is_named(
    call, untrained: Path, tiny_run: Path
) -> None:
    refused(
        call("evaluate", untrained), "This run has no data.test: name it with -s data.test=FILE."
    )
    short = ("--max-new-tokens", 3, "--json")
    given = call("evaluate", untrained, "-s", "data.test=sort", *short).json
    assert given["metrics"] == pytest.approx(call("evaluate", tiny_run, *short).json["metrics"])


def test_an_untrained_run_is_verified_and_exported(
    call, untrained: Path, few_equalities: None
) -> None:
    verified = call("verify", untrained)
    assert verified.code == 0, verified.err
    assert any(line.startswith(str(untrained)) for line in verified.out.splitlines())
    pytest.importorskip("ctranslate2")
    assert call("export", untrained, "--to", "ctranslate2", "--out", "exported").code == 0


def test_an_untrained_run_is_not_trained_on(call, untrained: Path) -> None:
    alone = untrained.parent / "imported.yaml"
    shutil.copy(untrained / "config.yaml", alone)
    refused(
        call("train", alone, "--out", "new"), "the key 'train' is missing: it says how to train"
    )
    config = regard.load(untrained).config
    with pytest.raises(UserError, match="the key 'train' is missing"):
        train(config, untrained, resume=True)


def test_an_untrained_run_lends_its_weights(call, untrained: Path, tiny) -> None:
    trained = call("train", "sort", *tiny, "--init", untrained)
    assert trained.code == 0, trained.err
    assert f"Taken from {untrained}: " in trained.err
