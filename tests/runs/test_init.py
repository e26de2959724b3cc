"""Training begins with weights of another run, or of part of it, and says which those are."""

from pathlib import Path

import pytest
import torch

import regard
from regard import config
from regard.runs.directory import read_config
from regard.runs.initial_weights import InitialWeights
from regard.runs.trainer import train
from regard.system.errors import UserError
from regard.system.tensors import read_tensors
from tests.command import refused
from tests.conftest import TINY_ON_FILES

FEW = [*TINY_ON_FILES, "train.steps=2", "train.eval_every=2", "train.schedule=constant", "seed=5"]


def first_weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights that training began with."""
    return read_tensors(run / "checkpoints/step-0/model.safetensors")[0]


def begun(settings: list[str], out: Path, init: str) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The weights that a run begins with, and what was said about them."""
    sentences: list[str] = []
    train(
        config.load("sort", [*FEW, "train.keep=9", *settings]), out, init=init, say=sentences.append
    )
    return first_weights(out), sentences


def test_a_run_begins_with_all_weights_of_another(tiny_run: Path, tmp_path: Path) -> None:
    weights, said = begun([], tmp_path / "run", str(tiny_run))
    other, _ = read_tensors(tiny_run / "model.safetensors")
    assert weights.keys() == other.keys()
    assert all(torch.equal(weights[name], other[name]) for name in other)
    count = len(other)
    assert said == [
        f"Taken from {tiny_run}: {count} of {count} weights: source_embedding, encoder, decoder.",
        f"The tokenizer is that of {tiny_run}.",
    ]
    assert read_config(tmp_path / "run").init == str(tiny_run)


def test_the_encoder_alone_is_taken_into_a_deeper_translator(
    tiny_run: Path, tmp_path: Path
) -> None:
    settings = ["model.decoder_layers=3", "tokenizer.vocab_size=12"]
    weights, said = begun(settings, tmp_path / "run", f"{tiny_run}:encoder")
    other, _ = read_tensors(tiny_run / "model.safetensors")
    encoder = [name for name in other if name.startswith("encoder.")]
    for name, weight in weights.items():
        same = name in other and torch.equal(weight, other[name])
        constant = bool((weight == weight.flatten()[0]).all())  # biases and norms begin alike
        assert same == (name in encoder) or constant
    assert said[-2:] == [
        f"Taken from {tiny_run}: {len(encoder)} of {len(weights)} weights: encoder.",
        "New, made from the seed: source_embedding, decoder.",
    ]
    assert read_config(tmp_path / "run").tokenizer.vocab_size == 12
    assert len(regard.load(tmp_path / "run").tokenizer) == 12


def test_a_tokenizer_comes_with_its_embedding(tmp_path: Path) -> None:
    (tmp_path / "letters.tsv").write_text("a b\tb a\n")
    (tmp_path / "more.tsv").write_text("b c a\ta b\n")
    settings = [f"data.directory={tmp_path}", "tokenizer.lowercase=true"]
    names = ("train", "valid", "test")
    first = [*settings, *(f"data.{split}=letters.tsv" for split in names)]
    train(config.load("sort", [*FEW, *first]), tmp_path / "letters")
    second = [f"data.directory={tmp_path}", *(f"data.{split}=more.tsv" for split in names)]
    _, said = begun(second, tmp_path / "run", f"{tmp_path / 'letters'}:source_embedding")
    assert any(sentence.startswith("The tokenizer is that of") for sentence in said)
    assert any("data.train: 1 of 5 tokens are not in the vocabulary" in one for one in said)
    files = [(tmp_path / run / "tokenizer.json").read_text() for run in ("letters", "run")]
    assert files[0] == files[1]
    assert read_config(tmp_path / "run").tokenizer.lowercase


def test_a_translator_lends_its_encoder_to_a_classifier(tmp_path: Path) -> None:
    recurrent = ["model.kind=gru", "model.d_model=16"]
    train(config.load("sort", [*FEW, *recurrent]), tmp_path / "sort")
    sentences: list[str] = []
    small = ["train.metric=loss", "train.batch_size=8", "train.steps=2", "data.epoch_size=200"]
    settings = [*small, *recurrent, "model.n_layers=2", "data.curriculum=0"]
    bidirectional = ["model.bidirectional=true", "train.eval_every=2", "train.save_every=9"]
    parity = config.load("parity", [*settings, *bidirectional])
    run, _ = train(parity, tmp_path / "parity", init=str(tmp_path / "sort"), say=sentences.append)
    assert any("weights: encoder." in sentence for sentence in sentences)
    assert any(sentence.startswith("Not used, of ") for sentence in sentences)
    assert not any("tokenizer" in sentence for sentence in sentences)
    assert run.predict(["3 1 2"])[0] in ("even", "odd")


def test_a_run_of_which_nothing_fits_is_refused(call, tiny_run: Path, tmp_path: Path) -> None:
    narrow = [word for setting in [*FEW, "model.d_model=8"] for word in ("-s", setting)]
    refused(
        call("train", "sort", *narrow, "--init", tiny_run),
        f"no weight of {tiny_run} has the name and the shape of one of this model",
    )
    assert not (tmp_path / "runs").exists()


def test_a_part_or_a_run_that_is_not_there_is_refused(call, tiny_run: Path) -> None:
    few = [word for setting in FEW for word in ("-s", setting)]
    refused(
        call("train", "sort", *few, "--init", f"{tiny_run}:encodre"),
        f"init: {tiny_run} has no weights of 'encodre'; its parts are source_embedding",
    )
    refused(call("train", "sort", *few, "--init", "gone"), "gone is no run directory")


def test_a_run_with_initial_weights_resumes_to_the_same_bits(tiny_run, tmp_path: Path) -> None:
    def settings(steps: int) -> config.Config:
        return config.load("sort", [*FEW, f"train.steps={steps}"])

    train(settings(4), tmp_path / "whole", init=f"{tiny_run}:encoder")
    train(settings(2), tmp_path / "stopped", init=f"{tiny_run}:encoder")
    longer = config.override(read_config(tmp_path / "stopped"), ["train.steps=4"], where="")
    train(longer, tmp_path / "stopped", resume=True)
    bits = [
        (tmp_path / run / "checkpoints/step-4/model.safetensors").read_bytes()
        for run in ("whole", "stopped")
    ]
    assert bits[0] == bits[1]


def test_another_run_to_begin_with_is_refused_on_resume(tiny_run, tmp_path: Path) -> None:
    train(config.load("sort", FEW), tmp_path / "run")
    with pytest.raises(UserError, match="was started with another init"):
        train(config.load("sort", [*FEW, f"init={tiny_run}"]), tmp_path / "run", resume=True)


@pytest.mark.parametrize("named_again", [True, False])
def test_a_run_with_initial_weights_resumes_by_the_configuration_it_was_trained_with(
    tiny_run: Path, tmp_path: Path, named_again: bool
) -> None:
    # Not the tokenizer settings of the other run, which come with its weights.
    resolved = config.load("sort", [*FEW, "tokenizer.lowercase=true"])
    train(resolved, tmp_path / "run", init=tiny_run)
    assert not read_config(tmp_path / "run").tokenizer.lowercase
    longer = config.override(resolved, ["train.steps=4"], where="")
    train(longer, tmp_path / "run", resume=True, init=tiny_run if named_again else None)
    assert read_config(tmp_path / "run").init == str(tiny_run)
    assert (tmp_path / "run/checkpoints/step-4").is_dir()


def test_an_argument_init_that_the_run_did_not_have_is_refused_on_resume(
    tiny_run: Path, tmp_path: Path
) -> None:
    train(config.load("sort", FEW), tmp_path / "run")
    with pytest.raises(UserError, match="was started with another init"):
        train(config.load("sort", FEW), tmp_path / "run", resume=True, init=tiny_run)


@pytest.mark.parametrize("parts", ["", "encoder,", " "])
def test_an_empty_part_is_refused(tiny_run: Path, parts: str) -> None:
    with pytest.raises(UserError, match="init: a part is missing after the colon"):
        InitialWeights.read(f"{tiny_run}:{parts}")
