"""The one reader of the JSON that Regard writes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from regard.system import json_files
from regard.system.errors import UserError
from regard.system.json_files import JsonError, parse_json, read_json
from regard.training.loop import Progress
from tests.permissions import shared_folder, without_privileges

DEEP = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("", dict[str, int], "it is not JSON: EOF"),
        ("{", dict[str, int], "it is not JSON: EOF"),
        ("\x00", dict[str, int], "it is not JSON"),
        (DEEP, dict[str, int], "it is not JSON: recursion limit"),
        ('{"a": ' + "9" * 5000 + "}", dict[str, int], "it is not JSON: number out of range"),
        ("[]", dict[str, int], "input should be"),
        ('{"a": "1"}', dict[str, int], "a: input should be a valid integer"),
        ('{"a": true}', dict[str, int], "a: input should be a valid integer"),
        ('{"step": 1, "stpe": 2}', Progress, "stpe: unexpected keyword argument"),
        ('{"best": [1, "x"]}', Progress, "best.1: input should be a valid number"),
        ('{"seen": {"targets": 3}}', Progress, "seen.targets: not the sums of a loss"),
        ('{"seen": {"targets": {"x": 3}}}', Progress, "seen.targets: not the sums of a loss"),
    ],
)
def test_another_text_is_refused_with_its_place_and_the_reason(text, kind, reason) -> None:
    with pytest.raises(JsonError) as refused:
        parse_json(text, kind, where="x.json")
    assert str(refused.value).startswith(f"x.json: {reason}")


def test_a_text_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(json_files, "MOST_BYTES", 10)
    (tmp_path / "x.json").write_text("[1, 2, 3, 4]")
    with pytest.raises(JsonError, match="it has more than 10 bytes"):
        read_json(tmp_path / "x.json", list[int])


def test_a_missing_file_is_missing_and_one_that_may_not_be_read_is_no_damage() -> None:
    with shared_folder() as folder:
        with pytest.raises(JsonError, match=r"x.json: it is missing"):
            read_json(folder / "x.json", list[int])
        (folder / "x.json").write_text("[1]")
        assert read_json(folder / "x.json", list[int]) == [1]
        (folder / "x.json").chmod(0)
        with without_privileges(), pytest.raises(UserError, match="cannot be read: Permission de"):
            read_json(folder / "x.json", list[int])


def test_progress_comes_back_as_it_was() -> None:
    progress = Progress(
        step=7,
        best=[0.1, -1e-30],
        seen={"targets": {"loss": 2.5, "count": 3, "correct": 1}},
        seconds=0.1 + 0.2,
        held_out={"valid": "abc"},
        config={"seed": 1, "train": {"lr": 1e-3, "steps": None}},
    )
    again = parse_json(json.dumps(asdict(progress)), Progress, where="")
    assert again == progress
    assert isinstance(again.take_sums()["targets"].count, int)
