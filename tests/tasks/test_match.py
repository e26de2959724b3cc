"""match: two texts in, a class or a score out."""

from pathlib import Path

import pytest

from regard import config, look
from regard.runs import run
from regard.runs.trainer import train
from regard.system.errors import UserError

NAMES = ("dog", "cat", "hen", "ox")
SIZES = dict(zip(NAMES, (2.0, 1.0, 0.5, 5.0), strict=True))
YAML = """
task: match
data: {train: rows.tsv, valid: rows.tsv, test: rows.tsv, max_length: 12, text: 1, text_pair: 2}
tokenizer: {kind: words}
model: {kind: bert, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32, dropout: 0}
train: {steps: 100, batch_size: 8, lr: 0.005, warmup: 10, eval_every: 50, save_every: 100}
"""
LABELS = ["data.label=3", "train.metric=accuracy"]
SCORES = ["data.score=3", "train.metric=spearman"]


def folder_of(path: Path, rows: str) -> Path:
    (path / "rows.tsv").write_text(rows)
    (path / "match.yaml").write_text(YAML)
    return path


def rated(path: Path) -> Path:
    """How much two animals weigh together."""
    lines = [f"a {x}\tthe {y}\t{SIZES[x] + SIZES[y]}\n" for x in NAMES for y in NAMES]
    return folder_of(path, "".join(lines))


def compared(path: Path) -> Path:
    """Whether the second animal is the large one."""
    lines = [f"a {x}\tthe {y}\t{'large' if y == 'ox' else 'no'}\n" for x in NAMES for y in NAMES]
    return folder_of(path, "".join(lines))


def settings(folder: Path, *more: str) -> config.Config:
    return config.load(str(folder / "match.yaml"), [f"data.directory={folder}", *more])


def test_it_learns_a_class_of_two_texts(tmp_path: Path) -> None:
    train(settings(compared(tmp_path), *LABELS), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    report = opened.evaluate("test")
    assert report["task"] == "match"
    assert report["metrics"]["accuracy"] == 1.0
    assert opened.predict(["a dog\tthe ox", "a ox\tthe dog"]) == ["large", "no"]
    trace = opened.trace("a dog\tthe ox")
    assert trace.tokens["source"] == ["<s>", "a", "dog", "</s>", "the", "ox", "</s>"]


@pytest.mark.parametrize("kind", ["bert", "transformer", "lstm", "cnn", "bag"])
def test_it_learns_a_score_of_two_texts(tmp_path: Path, kind: str) -> None:
    rate = {"bag": 0.02, "lstm": 0.02, "bert": 0.003}.get(kind, 0.01)
    keys = [f"model.kind={kind}", f"train.lr={rate}"]
    keys += ["train.steps=200"] if kind == "bert" else []
    train(settings(rated(tmp_path), *SCORES, *keys), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    metrics = opened.evaluate("test")["metrics"]
    assert metrics.keys() == {"loss", "pearson", "spearman"}
    assert min(metrics["pearson"], metrics["spearman"]) > 0.8
    lines = ["a ox\tthe ox", "a hen\tthe hen"]
    heavy, light = opened.predictions(lines)
    assert heavy.scores[0] > light.scores[0]
    assert heavy.as_json() == {"input": lines[0], "outputs": heavy.outputs, "scores": heavy.scores}
    assert heavy.text == f"{heavy.scores[0]:.4f}"
    singles = [opened.predictions([line])[0].scores[0] for line in lines]
    assert [each.scores[0] for each in (heavy, light)] == pytest.approx(singles, abs=1e-4)
    assert opened.task.files.keys() == {"tokenizer.json", "scores.json"}
    assert opened.metrics()[-1]["train"].keys() == {"loss"}
    assert len(look.draw(opened)) >= 1
    with pytest.raises(UserError, match="n_best=2: there is one score for two texts"):
        opened.predictions(lines, decoding={"n_best": 2})


@pytest.mark.parametrize("text", [None, "{", "[1]", '{"mean": NaN}', '{"middle": 1}'])
def test_a_broken_file_of_the_mean_score_is_refused(tmp_path: Path, text: str | None) -> None:
    train(settings(rated(tmp_path), *SCORES, "train.steps=1"), tmp_path / "run")
    file = tmp_path / "run" / "scores.json"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(UserError, match=r"scores.json (is missing|does not hold the mean)"):
        run.load(tmp_path / "run")


def test_a_class_and_a_score_are_not_learned_together(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data.label and data.score are both set"):
        settings(rated(tmp_path), "data.label=3", "data.score=3")
    with pytest.raises(UserError, match=r"metric=accuracy is not measured here; it may be loss, p"):
        settings(rated(tmp_path), "data.score=3", "train.metric=accuracy")
    with pytest.raises(UserError, match=r"metric=pearson is not measured here; it may be loss, a"):
        settings(rated(tmp_path), "data.label=3", "train.metric=pearson")


def test_a_score_that_is_no_number_is_named_by_file_and_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a\tb\t1\nc\td\tmuch\n")
    with pytest.raises(UserError, match=r"rows.tsv:2: the score is no number: 'much'"):
        train(settings(folder, *SCORES), tmp_path / "run")


def test_a_line_without_two_texts_is_refused(tmp_path: Path) -> None:
    train(settings(rated(tmp_path), *SCORES, "train.steps=1"), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    with pytest.raises(UserError, match="line:1: there should be two texts with one tab"):
        opened.predict(["a dog"])
    answer = opened.answer(["a dog", "a dog\tthe ox", "\t"], on_bad_line="skip")
    assert [len(each.outputs) for each in answer.predictions] == [0, 1, 0]
    assert [refusal.line for refusal in answer.refusals] == [1, 3]


def test_a_generator_has_no_second_text(tmp_path: Path) -> None:
    data = [f"data.{split}=sort" for split in ("train", "valid", "test")]
    keys = ["data.text=", "data.text_pair=", "data.directory=", *data]
    file = str(compared(tmp_path) / "match.yaml")
    with pytest.raises(UserError, match="is a generator of pairs of texts, and this task reads"):
        train(config.load(file, keys), tmp_path / "run")
