"""classify: labelled texts in, classes out."""

import json
from pathlib import Path

import pytest

from regard import config, look, run
from regard.errors import UserError
from regard.train import train

SETTINGS = [
    "data.train=train.tsv",
    "data.valid=valid.tsv",
    "data.test=valid.tsv",
    "data.curriculum=0",
    "model.d_model=16",
    "train.steps=60",
    "train.eval_every=30",
    "train.batch_size=4",
    "train.lr=0.03",
    "train.warmup=0",
]


def labelled(folder: Path, **texts: str) -> Path:
    """A folder of labelled texts: good and bad things are said."""
    default = {
        "train": "a fine day\tvery good\na good day\tvery good\na bad day\tbad\na sad day\tbad\n",
        "valid": "fine day\tvery good\nsad bad day\tbad\n",
    }
    for name, text in (default | texts).items():
        (folder / f"{name}.tsv").write_text(text)
    return folder


def settings(folder: Path, *more: str) -> config.Config:
    return config.load("parity", [*SETTINGS, f"data.directory={folder}", *more])


@pytest.mark.parametrize("pooling", ["final", "mean", "max", "attention"])
def test_it_learns_to_tell_classes_apart(tmp_path: Path, pooling: str) -> None:
    trained, _ = train(
        settings(labelled(tmp_path), f"model.pooling={pooling}", "model.bidirectional=true"),
        tmp_path / "run",
    )
    opened = run.load(tmp_path / "run")
    assert opened.predict(["a fine day", "a sad day"]) == ["very good", "bad"]
    report = opened.evaluate("test")
    assert (report["task"], report["examples"]) == ("classify", 2)
    assert report["metrics"]["accuracy"] == 1.0
    assert trained.metrics()[-1]["train"].keys() == {"loss", "accuracy"}
    assert len(look.draw(opened)) >= 1


def test_the_best_classes_come_with_their_chances(tmp_path: Path) -> None:
    made, _ = train(settings(labelled(tmp_path)), tmp_path / "run")
    (one,) = made.predictions(["a fine day"], decoding={"n_best": 2, "beam": 2})
    assert sorted(one.outputs) == ["bad", "very good"]
    assert one.scores == sorted(one.scores, reverse=True)
    assert sum(one.scores) == pytest.approx(1.0)


def test_a_class_that_training_has_not_is_named_by_file_and_line(tmp_path: Path) -> None:
    folder = labelled(tmp_path, valid="fine day\tvery good\nso so\tso-so\n")
    with pytest.raises(UserError, match=r"valid.tsv:2: the class 'so-so' is unknown; data.train "):
        train(settings(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    made, _ = train(settings(folder, "data.on_bad_line=skip"), tmp_path / "run")
    assert any("valid.tsv: 1 lines were left out" in notice for notice in made.notices())


def test_one_class_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has one class alone, 'x'"):
        train(settings(labelled(tmp_path, train="a\tx\nb\tx\n")), tmp_path / "run")


def test_an_empty_text_is_refused_in_data_and_in_prediction(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train.tsv:2: the source is empty"):
        train(settings(labelled(tmp_path, train="a\tx\n\ty\nb\ty\n")), tmp_path / "run")
    made, _ = train(settings(labelled(tmp_path)), tmp_path / "run")
    with pytest.raises(UserError, match="line:2: the line is empty: there is nothing to classify"):
        made.predict(["a day", " ", "a day"])
    with pytest.raises(UserError, match="line:1: 'awful' is not in the vocabulary"):
        made.predict(["an awful day".replace("an ", "")])


@pytest.mark.parametrize("text", [None, "{", '{"a": 1}', "[1, 2]"])
def test_broken_labels_are_refused(tmp_path: Path, text: str | None) -> None:
    train(settings(labelled(tmp_path)), tmp_path / "run")
    file = tmp_path / "run" / "labels.json"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(UserError, match=r"labels.json is (missing|not a list of classes)"):
        run.load(tmp_path / "run")


def test_other_labels_than_the_weights_learned_are_refused(tmp_path: Path) -> None:
    train(settings(labelled(tmp_path)), tmp_path / "run")
    (tmp_path / "run" / "labels.json").write_text(json.dumps(["very good", "bad"]))
    with pytest.raises(UserError, match="trained with another labels"):
        run.load(tmp_path / "run")


def test_other_data_can_be_scored_and_nothing_else_changed(tmp_path: Path) -> None:
    train(settings(labelled(tmp_path)), tmp_path / "run")
    (tmp_path / "more.tsv").write_text("a day\tbad\n")
    opened = run.load(tmp_path / "run", settings=["data.test=more.tsv"])
    assert opened.evaluate("test")["examples"] == 1
    with pytest.raises(UserError, match="the keys of data can be changed, and no others"):
        run.load(tmp_path / "run", settings=["model.d_model=8"])


def test_what_does_not_fit_the_task_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="transformer is not made for task=classify; it may"):
        config.load("parity", ["model.kind=transformer"])
    with pytest.raises(UserError, match="metric=wer is not measured here; it may be loss or acc"):
        config.load("parity", ["train.metric=wer"])
