"""regard data check: every line is accounted for."""

import json
from pathlib import Path

import pytest

from tests.command import refused

TRAIN = ["a b c\tc b a", "a b\tb a", "a b\tb a", "bad", "x\t", "a\tb c d e f g h i"]
TEST = ["a b\tb a", "a b\tb b", "z q\tq"]

CONFIG = """
task: translate
data: {train: train.tsv, valid: test.tsv, test: test.tsv, max_length: 5}
train: {steps: 2, batch_size: 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(CONFIG)
    (tmp_path / "train.tsv").write_text("\n".join(TRAIN) + "\n")
    (tmp_path / "test.tsv").write_text("\n".join(TEST) + "\n")
    return tmp_path


def test_what_is_kept_left_out_repeated_unknown_and_trained_on(call, folder: Path) -> None:
    result = call("data", "check", "mine.yaml", "--data", ".", "--json")
    assert result.code == 0
    splits = json.loads(result.out)["splits"]
    train, test = splits["train"], splits["test"]
    assert (train["kept"], train["truncated"], train["duplicates"]) == (3, 0, 1)
    assert train["left_out"] == {
        "there is 1 column, not 2 (tab-separated: source, target)": 1,
        "the target is empty": 1,
        "the target has more tokens than data.max_length=5": 1,
    }
    places = [place for lines in train["places"].values() for place in lines]
    assert [place.rsplit(":")[-1] for place in places] == ["4", "5", "6"]
    assert train["lengths"] == {"source": {"3": 1, "2": 2}, "target": {"3": 1, "2": 2}}
    assert (test["in_train"], test["sources_in_train"], test["in_train_lines"]) == (1, 2, [1])
    assert (test["tokens"], test["unknown"]) == (11, 3)
    assert test["coverage"] == pytest.approx(8 / 11)


def test_the_same_as_a_table_with_bars(call, folder: Path) -> None:
    out = call("data", "check", "mine.yaml", "--data", ".").out
    assert "train (train.tsv): 3 pairs kept, 0 truncated, 3 left out" in out
    assert "left out: 1 where the target is empty" in out
    assert "train.tsv:5" in out
    assert "overlap: 1 pairs and 2 sources are in train too" in out
    assert "█" in out
    assert "--on-bad-line skip" in out


def test_generators_are_checked_and_running_text_is_refused(
    call, folder: Path, all_held_out: None
) -> None:
    assert "test (sort): 2,000 pairs kept" in call("data", "check", "sort").out
    (folder / "lm.yaml").write_text(CONFIG.replace("translate", "lm") + "model: {kind: gru}\n")
    refused(call("data", "check", "lm.yaml", "--data", "."), "data check is for data with one")
    refused(call("data", "check", "nothing"), "There is no recipe 'nothing'")


def test_bad_lines_can_be_skipped_from_the_command_line(call, folder: Path, tiny) -> None:
    small = ("-s", "model.d_model=8", "-s", "model.d_ff=8", "--data", ".")
    refused(call("train", "mine.yaml", *small), "train.tsv:4: 1 column")
    result = call("train", "mine.yaml", *small, "--on-bad-line", "skip")
    assert result.code == 0
    assert "train.tsv: 3 lines were left out: 1 where there is 1 column, not 2" in result.err
