"""regard compare: trainings side by side, each done once."""

from pathlib import Path

import pytest

from tests.command import refused

TWO = ["-s", "model.n_layers=1,2", "-s", "train.metric=loss"]


def test_every_value_is_trained_and_shown(call, tiny, tmp_path: Path) -> None:
    result = call("compare", "sort", *tiny, *TWO, "--out", "out", "--save", "page.html", "--json")
    assert result.code == 0, result.err
    trainings = result.json["trainings"]
    assert [one["name"] for one in trainings] == ["n_layers=1", "n_layers=2"]
    assert trainings[0]["parameters"] < trainings[1]["parameters"]
    assert all(one["metric"] == "loss" and len(one["curve"]) == 2 for one in trainings)
    for name in ("report.html", "curves.png", "n_layers=1/model.safetensors"):
        assert (tmp_path / "out" / name).is_file()
    page = (tmp_path / "page.html").read_text()
    assert "n_layers=2" in page
    assert "http" not in page.split("</style>")[1]

    weights = tmp_path / "out/n_layers=1/model.safetensors"
    before = weights.stat().st_mtime_ns
    again = call("compare", "sort", *tiny, *TWO, "--out", "out")
    assert "n_layers=1" in again.out
    assert " *" in again.out, "the best one has a star"
    assert weights.stat().st_mtime_ns == before, "what is trained is not trained again"

    other = [*tiny, *TWO, "-s", "train.lr=0.5"]
    refused(
        call("compare", "sort", *other, "--out", "out"),
        "n_layers=1.json is of another configuration: train.lr is 0.5",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name a recipe"),
        (["sort"], "There is nothing to compare"),
        (["sort", "-s", "model.n_layers=1,1"], "is there twice"),
        (["sort", "-s", "model.n_layers=1,x"], "model.n_layers='x'"),
        (["sort", *TWO, "--labels", "16"], "--labels goes with --study"),
        (["sort", *TWO, "--save", "gone/page.html"], "gone is not a folder"),
        (["--study", "fine-tuning", "--labels", "1", "--init", "x"], "neither a number"),
        (["--study", "fine-tuning", "--methods", "magic"], "There is no method 'magic'"),
        (["--study", "fine-tuning"], "name its run, as in --init runs/minilm"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, arguments: list[str], words: str) -> None:
    refused(call("compare", *arguments), words)
