"""The recipes that pre-train a BERT: each trains for a few steps, with files or without."""

from pathlib import Path

import pytest

from regard import config
from regard.data.installed import INSTALLED
from regard.runs.trainer import train

RECIPES = [name for name in config.recipes() if config.load(name).task == "mlm"]
QUICK = [
    "train.steps=2",
    "train.eval_every=2",
    "train.batch_size=2",
    "data.max_length=16",
    "model.d_model=16",
    "model.d_ff=32",
    "model.n_layers=1",
]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few sentences in the place of a text that is not at hand, and of one that is long."""
    articles = "".join(f" = Dog {n} = \n A dog runs . It is {n} .\n" for n in range(20))
    rows = "".join(f"fresh,A dog runs. It is {n}.\n" for n in range(200))
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text(articles)
    (tmp_path / "reviews.csv").write_text("category,text\n" + rows)
    monkeypatch.setattr("regard.data.source.installed_file", lambda name: tmp_path / "reviews.csv")
    return tmp_path


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_that_pretrains_a_bert_trains(name: str, corpus: Path) -> None:
    installed = config.load(name).data.train in INSTALLED
    settings = [*QUICK, *([] if installed else [f"data.directory={corpus}"])]
    made, _ = train(config.load(name, settings), corpus / "run", say=lambda sentence: None)
    metrics = made.evaluate("test")["metrics"]
    assert {"mlm_accuracy", "nsp_accuracy", "unigram_loss", "gap_closed"} <= metrics.keys()
    (prediction,) = made.predictions(["A [MASK] runs."], decoding={"n_best": 2})
    assert len(prediction.masks[0]) == 2
