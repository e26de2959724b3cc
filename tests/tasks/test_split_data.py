"""What is read of a split: once, for all requests, with the warnings of that split alone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from regard import config
from regard.system.engine import make_engine
from regard.tasks import Classify, LanguageModelling, Task, Translate

SPLITS = ("train", "valid", "test")


def translate(folder: Path) -> Task:
    """Of valid, two lines are left out; of test, one token is unknown."""
    for split, extra in zip(SPLITS, ("", "bad\nbad\n", "1 x\t1\n"), strict=True):
        (folder / f"{split}.tsv").write_text("1 2\t2 1\n2 1\t1 2\n" + extra)
    files = [f"data.{split}={split}.tsv" for split in SPLITS]
    small = ["model.d_model=16", "model.n_heads=2", "model.n_layers=1", "model.d_ff=16"]
    return Translate.learn(
        config.load("sort", [*files, *small, f"data.directory={folder}", "data.on_bad_line=skip"])
    )


def classify(folder: Path) -> Task:
    for split, extra in zip(SPLITS, ("", "bad\nbad\n", "1 x\tb\n"), strict=True):
        (folder / f"{split}.tsv").write_text("1 2\ta\n2 1\tb\n" + extra)
    files = [f"data.{split}={split}.tsv" for split in SPLITS]
    settings = [*files, f"data.directory={folder}", "data.on_bad_line=skip"]
    return Classify.learn(config.load("parity", [*settings, "data.curriculum=0"]))


def language_model(folder: Path) -> Task:
    for split, extra in zip(SPLITS, ("", "y y\n", "x\n"), strict=True):
        (folder / f"{split}.txt").write_text("1 2\n2 1\n" + extra)
    (folder / "lm.yaml").write_text(
        "task: lm\ndata: {train: train.txt, valid: valid.txt, test: test.txt, max_length: 8}\n"
        "tokenizer: {kind: words}\nmodel: {kind: gru, d_model: 8}\n"
        "train: {steps: 1, batch_size: 1}\n"
    )
    return LanguageModelling.learn(
        config.load(str(folder / "lm.yaml"), [f"data.directory={folder}"])
    )


@pytest.mark.parametrize("make", [translate, classify, language_model])
def test_an_evaluation_reports_its_own_split_alone(make, tmp_path: Path) -> None:
    """Whatever was evaluated before it."""
    task, engine = make(tmp_path), make_engine()
    model = task.build_model().eval()
    first, second, again = [
        task.evaluate(model, split, engine=engine, metrics=["loss"]).warnings
        for split in ("valid", "test", "valid")
    ]
    assert first == again
    assert len(first) == len(second) == 1
    assert "valid" in first[0]
    assert "data.test: 1 of " in second[0]
    assert task.warnings() == [*first, *second]


@pytest.mark.parametrize("make", [translate, classify, language_model])
def test_threads_that_evaluate_at_once_report_what_one_reports(make, tmp_path: Path) -> None:
    alone, shared, engine = make(tmp_path), make(tmp_path), make_engine()
    model = alone.build_model().eval()
    splits = ("valid", "test", "valid", "test")
    together = Barrier(len(splits))

    def evaluate(split):
        together.wait()
        return shared.evaluate(model, split, engine=engine, metrics=["loss"])

    with ThreadPoolExecutor(len(splits)) as pool:
        evaluations = list(pool.map(evaluate, splits))
    for split, evaluation in zip(splits, evaluations, strict=True):
        assert evaluation == alone.evaluate(model, split, engine=engine, metrics=["loss"])


def test_a_split_is_read_once_by_all_threads(tmp_path: Path, monkeypatch) -> None:
    task, reads, together = translate(tmp_path), [], Barrier(4)
    read = task.read

    def counting(split, **options):
        reads.append(split)
        return read(split, **options)

    monkeypatch.setattr(task, "read", counting)

    def data(split):
        together.wait()
        return task.data(split)

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(data, ["valid"] * 4)
    assert reads == ["valid"]
    assert all(other is first for other in others)
