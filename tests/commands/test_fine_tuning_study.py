"""regard compare --study fine-tuning: what pre-training is worth, by the number of labels."""

import json
from pathlib import Path

import pytest

from regard.data.rows import Row
from regard.studies import fine_tuning
from regard.studies.few_labels import balanced
from regard.system.errors import UserError
from tests.command import refused
from tests.encoders import embedder_run


@pytest.fixture
def few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine_tuning, "LEAST_UPDATES", 2)
    monkeypatch.setattr(fine_tuning, "PROBES", 1)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    words = {"good": "fine", "bad": "poor"}
    lines = [f"{label}\ta {word} day {n}" for n in range(8) for label, word in words.items()]
    (tmp_path / "texts.tsv").write_text("\n".join(["class\tsentence", *lines]) + "\n")
    path = tmp_path / "texts.yaml"
    path.write_text(
        f"task: classify\ndata: {{directory: {tmp_path}, train: texts.tsv, valid: texts.tsv, "
        "test: texts.tsv, text: sentence, label: class, max_length: 16}\n"
        "model: {kind: gru}\ntrain: {steps: 9, batch_size: 8}\n"
    )
    return path


@pytest.mark.usefixtures("few_updates")
def test_every_method_is_trained_at_every_size_once(call, recipe: Path, tmp_path: Path) -> None:
    run = embedder_run(tmp_path / "encoder")
    study = ["compare", recipe, "--study", "fine-tuning", "--init", run, "--out", "out"]
    few = [*study, "--labels", "4,all", "--seeds", "2", "--methods", "bag,fine-tuned"]
    planned = call(*few, "--plan", "--json")
    assert planned.code == 0, planned.err
    assert sorted(planned.json["minutes"]) == [
        f"{method}-{which}"
        for method in ("bag", "fine-tuned")
        for which in ("4-seed1", "4-seed2", "all-seed1")
    ]
    assert "6 trainings, about" in planned.err
    result = call(*few, "--save", "page.html", "--json")
    assert result.code == 0, result.err
    found = {(one["method"], one["labels"]): one for one in result.json["results"]}
    assert found["bag", 4]["seeds"] == 2
    assert found["fine-tuned", 16]["seeds"] == 1
    assert all(0 <= one["accuracy"] <= 1 for one in found.values())
    assert not (tmp_path / "out/bag-4-seed1").exists(), "weights are not kept"
    for name in ("out/curve.png", "out/report.html", "page.html"):
        assert (tmp_path / name).stat().st_size > 1_000
    again = call(*few)
    assert "0 trainings, about 0 minutes; 6 are done." in again.err
    assert "fine-tuned" in again.out
    other = (tmp_path / "texts.tsv").read_text().replace("fine", "good")
    (tmp_path / "texts.tsv").write_text(other)
    refused(call(*few), "was made of other data: name another --out")


@pytest.mark.usefixtures("few_updates")
@pytest.mark.parametrize("method", fine_tuning.METHODS)
def test_every_method_has_settings_that_its_model_takes(
    recipe: Path, tmp_path: Path, method: str
) -> None:
    run = embedder_run(tmp_path / "encoder", attention_dropout=0.1)
    study = fine_tuning.Study(
        str(recipe), tmp_path / "out", init=str(run), methods=[method], sizes=[4], seeds=1
    )
    (planned,) = study.planned
    assert planned.updates == (2 if fine_tuning.METHODS[method].pretrained else 8)
    assert planned.cell.config.training.batch_size == 4
    assert list(study.minutes(lambda line: None)) == [f"{method}-4-seed1"]


def rows_of(**counts: int) -> list[Row]:
    labels = [label for label, count in counts.items() for _ in range(count)]
    return [
        Row(Path(), number, {"text": str(number), "label": label})
        for number, label in enumerate(labels)
    ]


def test_few_labels_are_of_all_classes_alike_and_part_of_more() -> None:
    rows = rows_of(good=50, bad=30, odd=2)
    few, more = (balanced(rows, count, seed=3) for count in (6, 20))
    labels = [row["label"] for row in few]
    assert {label: labels.count(label) for label in labels} == {"good": 2, "bad": 2, "odd": 2}
    assert {row["text"] for row in few} <= {row["text"] for row in more}
    assert len(more) == len({row["text"] for row in more}) == 20
    assert balanced(rows, 6, seed=4) != few
    assert sorted(row["text"] for row in balanced(rows, 82, seed=1)) == sorted(
        row["text"] for row in rows
    )
    for count, words in ((83, "83 labelled examples were asked for"), (2, "all 3 classes")):
        with pytest.raises(UserError, match=words):
            balanced(rows, count, seed=1)


def test_data_and_results_are_plain_files(call, recipe: Path, tmp_path: Path) -> None:
    study = fine_tuning.Study(str(recipe), tmp_path / "out", methods=["bag"], sizes=[4], seeds=1)
    assert len(study.planned) == 1
    lines = (tmp_path / "out/data/4-seed1.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["label"] for line in lines) == ["bad", "bad", "good", "good"]
