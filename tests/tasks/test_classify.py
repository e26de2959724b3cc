"""classify: labelled texts in, classes out."""

import json
import unicodedata
from pathlib import Path

import pytest

from regard import config, look
from regard.config import Decode
from regard.metrics.output import Output
from regard.runs import run
from regard.runs.trainer import train
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks import Classify, Request

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
    assert opened.evaluation("test").outputs == [
        Output("fine day", "very good", "very good"),
        Output("sad bad day", "bad", "bad"),
    ]
    assert trained.metrics()[-1]["train"].keys() == {"loss", "accuracy"}
    assert len(look.draw(opened)) >= 1


KINDS = {
    "transformer": ["model.n_heads=2", "model.d_ff=32", "model.n_layers=1", "train.lr=0.01"],
    "bert": ["model.n_heads=2", "model.d_ff=32", "model.n_layers=1", "train.lr=0.003"],
    "cnn": ["model.filters=8", "model.filter_widths=1, 2"],
    "bag": ["model.bigrams=50"],
    "gru": [],
}
BLOCKS = ("transformer", "bert")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_learns_texts_and_pairs_of_texts(tmp_path: Path, kind: str) -> None:
    keys = [f"model.kind={kind}", *KINDS[kind], "model.bidirectional=true", "train.steps=80"]
    keys = keys if kind == "gru" else [key for key in keys if "bidirectional" not in key]
    train(settings(labelled(tmp_path), *keys), tmp_path / "one")
    opened = run.load(tmp_path / "one")
    assert opened.predict(["a fine day", "a sad day"]) == ["very good", "bad"]
    assert opened.evaluate("test")["metrics"].keys() == {
        "loss", "accuracy", "f1", "precision", "recall"
    }  # fmt: skip
    trace = opened.trace("a fine day")
    assert trace.tokens["source"][:1] == (["<s>"] if kind in BLOCKS else ["a"])
    assert bool(trace.attention()) == (kind in BLOCKS)
    assert len(look.draw(opened)) >= 1
    names = ("dog", "cat", "hen")
    pairs = "".join(
        f"{a} {more}\t{b}\t{'same' if a == b else 'other'}\n"
        for a in names for b in names for more in ("x", "y")
    )  # fmt: skip
    columns = ["data.text=1", "data.text_pair=2", "data.label=3", "data.max_length=20"]
    folder = labelled(tmp_path, train=pairs, valid=pairs)
    train(settings(folder, *keys, *columns), tmp_path / "two")
    opened = run.load(tmp_path / "two")
    if kind != "bag":  # which cannot say whether a word stands in both
        assert opened.evaluate("test")["metrics"]["accuracy"] > 0.6
    singles = [opened.predictions([line])[0].probabilities for line in ("dog x\tdog", "cat y\then")]
    both = [each.probabilities for each in opened.predictions(["dog x\tdog", "cat y\then"])]
    assert both == [pytest.approx(each, abs=1e-5) for each in singles]
    for line in ("dog", "dog\tcat\then"):
        with pytest.raises(UserError, match="line:1: there should be two texts with one tab"):
            opened.predict([line])
    with pytest.raises(UserError, match="line:1: one of the two texts is empty"):
        opened.predict(["dog\t "])


def test_the_best_classes_come_with_their_chances(tmp_path: Path) -> None:
    made, _ = train(settings(labelled(tmp_path)), tmp_path / "run")
    (one,) = made.predictions(["a fine day"], decoding={"n_best": 2})
    assert sorted(one.outputs) == ["bad", "very good"]
    assert one.probabilities == sorted(one.probabilities, reverse=True)
    assert sum(one.probabilities) == pytest.approx(1.0)
    assert one.as_json() == {
        "input": "a fine day",
        "outputs": one.outputs,
        "scores": one.probabilities,
    }


def test_a_class_that_training_has_not_is_named_by_file_and_line(tmp_path: Path) -> None:
    folder = labelled(tmp_path, valid="fine day\tvery good\nso so\tso-so\n")
    with pytest.raises(UserError, match=r"valid.tsv:2: the class 'so-so' is unknown; data.train "):
        train(settings(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    made, _ = train(settings(folder, "data.on_bad_line=skip"), tmp_path / "run")
    assert any("valid.tsv: 1 line was left out" in notice for notice in made.warnings())


def test_a_class_written_in_another_form_is_the_same_class(tmp_path: Path) -> None:
    one, two = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    folder = labelled(
        tmp_path, train=f"a a\t{one}\nb a\t{two}\nc b\ttea\n", valid=f"a\t{two}\nb\ttea\n"
    )
    task = Classify.learn(settings(folder))
    assert task.labels.names == [one, "tea"]
    task.check_data()
    evaluation = task.evaluate(task.build_model().eval(), "valid", engine=Engine())
    assert [output.target for output in evaluation.outputs] == [one, "tea"]


def test_unknown_pieces_are_counted_and_unknown_words_refused(tmp_path: Path) -> None:
    folder = labelled(tmp_path)
    for kind in ("bpe", "words"):
        task = Classify.learn(settings(folder, f"tokenizer.kind={kind}"))
        model, request = task.build_model().eval(), Request(["a good 日本 day"], Decode())
        if kind == "words":
            with pytest.raises(UserError, match="'日本' is not in the vocabulary"):
                task.predict(model, request, engine=Engine())
        else:
            (sentence,) = task.predict(model, request, engine=Engine()).counts.warnings()
            assert "are not in the vocabulary, and are read as <unk>" in sentence


def test_a_classifier_of_weights_that_are_no_numbers_is_refused(tmp_path: Path) -> None:
    task = Classify.learn(settings(labelled(tmp_path)))
    model = task.build_model().eval()
    next(model.parameters()).data.fill_(float("nan"))
    with pytest.raises(UserError, match="gives NaN in place of probabilities"):
        task.predict(model, Request(["a good day"], Decode()), engine=Engine())


def test_one_class_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has only one class, 'x'"):
        train(settings(labelled(tmp_path, train="a\tx\nb\tx\n")), tmp_path / "run")


def test_an_empty_text_is_refused_in_data_and_in_prediction(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train.tsv:2: the text is empty"):
        train(settings(labelled(tmp_path, train="a\tx\n\ty\nb\ty\n")), tmp_path / "run")
    made, _ = train(settings(labelled(tmp_path)), tmp_path / "run")
    with pytest.raises(UserError, match="line:2: the line is empty: there is nothing to classify"):
        made.predict(["a day", " ", "a day"])
    with pytest.raises(UserError, match="line:1: 'awful' is not in the vocabulary"):
        made.predict(["an awful day".replace("an ", "")])


@pytest.mark.parametrize("text", [None, "{", '{"a": 1}', "[1, 2]", "[]", '["a", "a"]'])
def test_broken_labels_are_refused(tmp_path: Path, text: str | None) -> None:
    train(settings(labelled(tmp_path)), tmp_path / "run")
    file = tmp_path / "run" / "labels.json"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(UserError, match=r"labels.json is (missing|not a list of classes)"):
        run.load(tmp_path / "run")


def test_classes_are_not_taken_for_unknown_tokens(tmp_path: Path) -> None:
    text = "".join(f"w{n} w{n}\tclass {n}\n" for n in range(6))
    made, _ = train(settings(labelled(tmp_path, train=text, valid=text)), tmp_path / "run")
    assert made.warnings() == []
    (one,) = made.predictions(["w1"], decoding={"n_best": 6})
    assert len(one.outputs) == 6
    with pytest.raises(UserError, match="n_best=7 is more than the 6 classes"):
        made.predictions(["w1"], decoding={"n_best": 7})


def test_a_generator_of_other_classes_is_refused(tmp_path: Path) -> None:
    train(settings(labelled(tmp_path)), tmp_path / "run")
    opened = run.load(tmp_path / "run", settings=["data.test=sort"])
    with pytest.raises(UserError, match=r"is unknown; data\.train has bad, very good"):
        opened.evaluate("test")


def test_epochs_of_a_curriculum_are_counted_as_they_grow() -> None:
    task = Classify.learn(
        config.load("parity", ["train.batch_tokens=640", "data.epoch_size=500", "train.epochs=20"])
    )
    batches = task.batches()
    counts = [batches.count(epoch) for epoch in range(20)]
    grown = sum(counts[:17]) + 3 * counts[16]  # past the curriculum, as many as in its first epoch
    assert task.steps(epochs=20, accumulate=1) == grown
    assert counts[0] < counts[16]


def test_a_very_long_curriculum_is_counted_in_samples() -> None:
    epochs = 100_000
    settings = ["train.batch_tokens=32", "data.epoch_size=2", f"data.curriculum={epochs}"]
    task = Classify.learn(config.load("parity", [*settings, f"train.epochs={epochs}"]))
    assert epochs <= task.steps(epochs=epochs, accumulate=1) < 2 * epochs
    assert task.steps(epochs=2 * epochs, accumulate=1) > 2 * epochs


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
    for other in ("model.d_model=8", "data.split_seed=2", "data.held_out=0.1"):  # was trained on
        with pytest.raises(UserError, match="where its data comes from can be changed"):
            run.load(tmp_path / "run", settings=[other])


def test_what_does_not_fit_the_task_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="kind=gpt is not available for task=classify; it may"):
        config.load("parity", ["model.kind=gpt"])
    with pytest.raises(UserError, match="metric=wer is not measured here; it may be loss, acc"):
        config.load("parity", ["train.metric=wer"])


def test_a_training_file_without_a_usable_line_is_refused(tmp_path: Path) -> None:
    folder = labelled(tmp_path)
    (folder / "train.tsv").write_text("bad\n")
    with pytest.raises(UserError, match="there is no usable line in it"):
        train(settings(folder, "data.on_bad_line=skip"), tmp_path / "run")
