"""The recipes of classification read their data as it comes: tables, folders, nameless columns."""

from pathlib import Path

import pytest

from regard import config
from regard.runs.run import load
from regard.runs.trainer import train
from regard.system.errors import UserError
from tests.conftest import TINY_ON_FILES

RECIPES = ("sst2", "waimai", "imdb", "ag-news")


def write_all(folder: Path) -> None:
    """A little of each corpus, in the form in which it can be had."""
    rows = [("good", 1), ("bad", 0)] * 60
    table = "sentence\tlabel\n" + "".join(f"a {a} film {n}\t{b}\n" for n, (a, b) in enumerate(rows))
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text(table)
    reviews = "".join(f"{b},很{'好' if b else '坏'}，{n}\n" for n, (_, b) in enumerate(rows))
    (folder / "waimai_10k.csv").write_text("label,review\n" + reviews)
    for split in ("train", "test"):
        for number, (word, _) in enumerate([*rows[:60], ("some", 2), ("any", 2)]):
            name = {"good": "pos", "bad": "neg"}.get(word, "unsup")
            file = folder / split / name / f"{number}_7.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"A {word} film.<br />I saw it {number} times.\nYes.")
        (folder / split / "urls_pos.txt").write_text("http://example.org\n")
        lines = (
            f'"{n % 4 + 1}","Title {n}, ""new""","{("war", "ball", "oil", "star")[n % 4]} {n}"\n'
            for n in range(200)
        )
        (folder / f"{split}.csv").write_text("".join(lines))


def short(name: str, folder: Path, *more: str) -> config.Config:
    return config.load(name, [*TINY_ON_FILES, f"data.directory={folder}", *more])


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains_on_its_corpus_as_it_comes(tmp_path: Path, name: str) -> None:
    write_all(tmp_path)
    train(short(name, tmp_path), tmp_path / "run")
    opened = load(tmp_path / "run")
    classes = {"imdb": ["neg", "pos"], "ag-news": ["1", "2", "3", "4"]}.get(name, ["0", "1"])
    assert opened.task.labels.names == classes
    line = "Oil rises\tPrices went up." if name == "ag-news" else "a fine film"
    assert opened.predict([line])[0] in classes
    assert 0 <= opened.evaluate("test")["metrics"]["f1"] <= 1


def test_texts_without_a_class_are_counted_in_a_folder_of_classes(tmp_path: Path) -> None:
    write_all(tmp_path)
    made, _ = train(short("imdb", tmp_path), tmp_path / "run")
    (sentence,) = [each for each in made.warnings(["test"]) if "unsup" in each]
    assert sentence.startswith(
        f"{tmp_path / 'test'}: 2 lines were left out: 2 where the text is in"
    )
    pairs = made.task.pairs("test")
    assert len(pairs) == 60
    assert pairs[0] == ("A bad film.<br />I saw it 11 times.\nYes.", "neg")


def test_a_folder_that_is_neither_classes_nor_a_dataset_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train" / "pos").mkdir(parents=True)
    with pytest.raises(UserError, match="is not a folder of a dataset"):
        train(short("imdb", tmp_path), tmp_path / "run")
    (tmp_path / "train" / "pos" / "1.txt").write_text("fine\n")
    with pytest.raises(UserError, match="has only one class, 'pos'; a classifier needs two"):
        train(short("imdb", tmp_path, "data.held_out=0"), tmp_path / "run")
    (tmp_path / "train" / "neg").mkdir()
    (tmp_path / "train" / "neg" / "1.txt").write_text(" \n")
    with pytest.raises(UserError, match=r"train/neg/1.txt:1: the text is empty"):
        train(short("imdb", tmp_path, "data.held_out=0"), tmp_path / "run")


def test_a_missing_column_and_an_unknown_class_are_named(tmp_path: Path) -> None:
    write_all(tmp_path)
    with pytest.raises(
        UserError, match=r"has no column data.text='review'; it has sentence, label"
    ):
        train(short("sst2", tmp_path, "data.text=review"), tmp_path / "run")
    with pytest.raises(UserError, match=r"has no column data.text_pair='4'; it has 3 columns"):
        train(short("ag-news", tmp_path, "data.text_pair=4"), tmp_path / "run")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na film\t1\nso so\t2\n")
    with pytest.raises(
        UserError, match=r"dev.tsv:3: the class '2' is unknown; data.train has 0, 1"
    ):
        train(short("sst2", tmp_path), tmp_path / "run")
    made, _ = train(short("sst2", tmp_path, "data.on_bad_line=skip"), tmp_path / "run")
    assert made.evaluate("test")["examples"] == 1


LONG = ("data.max_length=6", "data.held_out=0", "tokenizer.kind=words")


@pytest.mark.parametrize("kind", ["transformer", "cnn"])
def test_texts_that_are_too_long_are_refused_skipped_or_cut(tmp_path: Path, kind: str) -> None:
    frame = 2 if kind == "transformer" else 0
    text = "sentence\tlabel\nw w w w\t1\nw x w x w x w\t0\nx x\t0\n"
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(text)
    keys = [*LONG, f"model.kind={kind}"]
    for how in ("bad-line", "error"):
        with pytest.raises(UserError, match=rf"train.tsv:3: .* {7 + frame} tokens where data.ma"):
            train(short("sst2", tmp_path, *keys, f"data.too_long={how}"), tmp_path / "run")
    made, _ = train(short("sst2", tmp_path, *keys, "data.too_long=skip"), tmp_path / "skip")
    assert made.evaluate("test")["examples"] == 2
    assert any("1 line was left out: 1 where the text" in each for each in made.warnings())
    long = "w x w x w x w"
    answer = made.answer(["w", long, "x"])
    assert [len(each.outputs) for each in answer.predictions] == [1, 0, 1]
    assert [refusal.line for refusal in answer.refusals] == [2]
    made, _ = train(short("sst2", tmp_path, *keys, "data.too_long=cut"), tmp_path / "cut")
    assert made.evaluate("test")["examples"] == 3
    (sentence,) = [each for each in made.warnings(["test"]) if "beginnings" in each]
    assert "1 of 3 texts of data.test have more tokens than data.max_length=6" in sentence
    beginning = " ".join(long.split()[: 6 - frame])
    answer = made.answer([long, beginning])
    assert answer.predictions[0].probabilities == pytest.approx(answer.predictions[1].probabilities)
    assert answer.counts.shortened == 1
    assert "1 line has more tokens than data.max_length" in answer.counts.warnings()[0]
    report = made.task.data_report()["test"]
    assert (report.kept, report.truncated) == (3, 1)


def test_of_two_texts_the_longer_is_cut_first(tmp_path: Path) -> None:
    text = "sentence\tother\tlabel\nw\tw\t1\nx y\tx y z x y z\t0\n"
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(text)
    keys = [*LONG, "data.max_length=8", "data.text_pair=other", "data.too_long=cut"]
    made, _ = train(short("sst2", tmp_path, *keys), tmp_path / "run")
    rows = [made.tokenizer.tokens(row) for row in made.task.rows_in("test")]
    assert [len(row) for row in rows] == [5, 8]
    assert rows[1] == ["<s>", "x", "y", "</s>", "x", "y", "z", "</s>"]


def test_positions_that_a_model_has_not_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data.max_length=80 is more than model.max_positions=64"):
        short("sst2", tmp_path, "model.kind=bert", "model.max_positions=64")
    with pytest.raises(UserError, match=r"data.max_length=2 leaves no room for a text"):
        short("sst2", tmp_path, "data.max_length=2")
    with pytest.raises(UserError, match=r"filter_widths='3, x' is not a list of numbers"):
        short("sst2", tmp_path, "model.kind=cnn", "model.filter_widths=3, x")
