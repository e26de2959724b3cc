"""What a resumed or opened run depends on: a change is refused by name, or told."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import regard
from regard import config
from regard.runs.changes import changes, in_words
from regard.runs.directory import read_config
from regard.runs.trainer import train
from regard.system.errors import UserError
from regard.system.files import sha256
from tests.command import refused
from tests.conftest import TINY_ON_FILES


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, to be changed."""
    return Path(shutil.copytree(tiny_run, tmp_path / "copy"))


def edit(run: Path, key: str, value: Any) -> None:
    """Change a key of config.yaml as a person with an editor does."""
    values = yaml.safe_load((run / "config.yaml").read_text())
    *sections, name = key.split(".")
    place = values
    for section in sections:
        place = place[section]
    assert place[name] != value
    place[name] = value
    (run / "config.yaml").write_text(yaml.safe_dump(values))


def resume(run: Path, *settings: str) -> list[str]:
    """Resume with what config.yaml says now; the messages."""
    told: list[str] = []
    resolved = config.override(read_config(run), settings, where=str(run))
    train(resolved, run, resume=True, say=told.append)
    return told


@pytest.mark.parametrize(
    ("key", "value", "before"),
    [
        ("seed", 2, 1),
        ("train.lr", 0.5, 0.001),
        ("train.warmup", 301, 300),
        ("train.clip", 2.0, 1.0),
        ("train.ema", 0.5, 0.0),
        ("model.dropout", 0.2, 0.1),
        ("data.epoch_size", 301, 300),
        ("data.split_seed", 3, 0),
    ],
)
def test_a_key_that_was_edited_is_refused_by_name(run: Path, key, value, before) -> None:
    edit(run, key, value)
    with pytest.raises(UserError) as told:
        resume(run)
    assert f"config.yaml was edited: {key} is {value} and was {before};" in str(told.value)


def test_a_key_that_is_given_is_refused_by_name_too(run: Path) -> None:
    with pytest.raises(UserError, match=r"another train.lr \(train.lr is 0.5 and was 0.001\)"):
        resume(run, "train.lr=0.5")


def test_decoding_options_may_be_edited_and_stay_so(run: Path) -> None:
    edit(run, "decode.beam", 3)
    edit(run, "decode.strategy", "beam")
    edit(run, "train.keep", 5)
    assert resume(run) == []
    assert read_config(run).decode.beam == 3
    assert read_config(run).training.keep == 5
    assert resume(run, "decode.beam=2") == []
    assert read_config(run).decode.beam == 2


def test_an_edited_number_of_steps_is_told_as_one_that_is_given(run: Path) -> None:
    edit(run, "train.steps", 7)
    assert "The cosine schedule now ends at another step" in resume(run)[0]


def test_a_configuration_that_cannot_be_one_is_one_sentence(run: Path) -> None:
    folder = run / "checkpoints/step-6"
    progress = json.loads((folder / "progress.json").read_text())
    progress["config"]["seed"] = [1]
    (folder / "progress.json").write_text(json.dumps(progress))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["progress.json"] = sha256(folder / "progress.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"progress.json: seed"):
        resume(run)


@pytest.mark.parametrize(
    ("key", "value", "before"),
    [
        ("data.max_length", 19, 20),
        ("data.scores", "translation", "exact"),
        ("data.split_seed", 1, 0),
        ("tokenizer.kind", "bpe", "words"),
    ],
)
def test_a_key_that_predictions_depend_on_is_refused_by_name(run, key, value, before) -> None:
    edit(run, key, value)
    with pytest.raises(UserError, match=f"was trained with {key}={before} where .* has {value}"):
        regard.load(run)


def test_a_run_may_be_evaluated_on_longer_lines(run: Path) -> None:
    opened = regard.load(run, settings=["data.max_length=30"])
    assert opened.predict([" ".join("1" * 25)], max_new_tokens=2)


def test_another_number_of_threads_is_told(run: Path, two_threads: None) -> None:
    (message,) = resume(run)
    assert message == (
        "Resumed with 2 threads where it was 1 thread: the weights will be the same up to "
        "rounding, not to the bit."
    )
    torch.set_num_threads(1)
    assert resume(run) == []  # no step was made with two


def test_a_changed_validation_or_test_file_is_told(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text("1 2\t2 1\n3 4\t4 3\n")
    files = [f"data.{split}={split}.tsv" for split in ("train", "valid", "test")]
    settings = [*TINY_ON_FILES, *files, f"data.directory={tmp_path}", "train.steps=2"]
    train(config.load("sort", settings), tmp_path / "run")
    assert resume(tmp_path / "run") == []
    (tmp_path / "valid.tsv").write_text("1 2\t2 1\n")
    (tmp_path / "test.tsv").write_text("3 4\t4 3\n")
    valid, test = resume(tmp_path / "run", "train.schedule=cosine")
    assert valid == (
        "data.valid has changed since step 2: it is used as it is now, and evaluations from here "
        "on cannot be compared with earlier ones, by which the best weights so far were chosen."
    )
    assert test.startswith("data.test has changed since step 2: it is used as it is now")


def test_an_edited_recipe_is_told_and_the_runs_own_configuration_used(call, tmp_path, tiny) -> None:
    recipe = "data: {train: sort, valid: sort, test: sort}\ntrain: {lr: 0.01, steps: 2}\n"
    (tmp_path / "mine.yaml").write_text(recipe)
    assert call("train", "mine.yaml", *tiny).code == 0
    (tmp_path / "mine.yaml").write_text("# a comment changes nothing\n" + recipe)
    assert "has changed" not in call("train", "mine.yaml", *tiny, "--resume").err
    (tmp_path / "mine.yaml").write_text(recipe.replace("0.01", "0.02"))
    resumed = call("train", "mine.yaml", *tiny, "--resume")
    assert resumed.code == 0
    assert (
        "The recipe 'mine' has changed since the run began: train.lr is 0.02 and was 0.01. "
        "The run goes on with its own configuration, config.yaml." in resumed.err
    )
    assert read_config(tmp_path / "runs/mine").training.lr == 0.01
    edit(tmp_path / "runs/mine", "train.lr", 0.02)
    refused(call("train", "mine.yaml", *tiny, "--resume"), "train.lr is 0.02 and was 0.01")


def test_changes_in_words() -> None:
    before = {"seed": 1, "train": {"lr": 0.1, "steps": None}, "about": {"minutes": 1}}
    now = {"seed": 1, "train": {"lr": 0.2, "steps": 3}, "about": {"minutes": 2}, "init": "a"}
    assert in_words(changes(before, now)) == (
        "train.lr is 0.2 and was 0.1; train.steps is 3 and was not given; "
        "init is 'a' and was not given"
    )
    many = changes({}, {f"key{number}": number for number in range(9)})
    assert in_words(many).endswith("key4 is 4 and was not given; and 4 more")


def test_a_changed_tokenizer_is_refused_before_text_is_read_with_it(run: Path) -> None:
    file = run / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary[max(vocabulary, key=vocabulary.get)] = 10_000  # beyond the embedding
    file.write_text(json.dumps(tokenizer))
    with pytest.raises(UserError, match="was trained with another tokenizer"):
        resume(run)
