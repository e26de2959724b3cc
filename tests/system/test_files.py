"""Files that are whole or not there, and what is left of those that were not finished."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from regard.system.errors import UserError
from regard.system.files import remove_leftovers, saying_what_failed, writing


def gone_process() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_what_a_gone_process_was_writing_is_removed_and_a_living_ones_is_not(tmp_path) -> None:
    gone, living = gone_process(), os.getppid()
    abandoned = tmp_path / f".run.{gone}.140.part"
    abandoned.mkdir()
    (abandoned / "config.yaml").touch()
    others = [
        tmp_path / f".run.{living}.140.part",
        tmp_path / f".other.{gone}.140.part",
        tmp_path / f".run.{gone}.part",
        tmp_path / "run.txt",
    ]
    for other in others:
        other.touch()
    with writing(tmp_path / "run") as aside:
        aside.mkdir()
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "run"])


def test_a_process_with_the_number_of_one_that_was_killed_can_write(tmp_path: Path) -> None:
    with writing(tmp_path / "run") as aside:
        aside.mkdir()
    aside.mkdir()
    with writing(tmp_path / "run") as aside:
        aside.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_leftovers_are_what_was_not_finished(tmp_path: Path) -> None:
    for name in (".model.safetensors.12.34.part", ".tmpAbC123", ".hidden", "a.part", ".tmp"):
        (tmp_path / name).touch()
    (tmp_path / ".step-3.12.34.part").mkdir()
    (tmp_path / ".step-3.12.34.part" / "progress.json").touch()
    remove_leftovers(tmp_path)
    remove_leftovers(tmp_path / "nowhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", ".tmp", "a.part"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "make room and try again"),
        (errno.EROFS, "a disk that can be written"),
        (errno.EACCES, "change who may write there"),
        (errno.ENAMETOOLONG, "a shorter name"),
        (errno.ENOENT, "is gone"),
        (errno.EIO, "; try again"),
    ],
)
def test_the_advice_fits_the_reason(number: int, advice: str) -> None:
    with (
        pytest.raises(UserError, match=f"x could not be written: {os.strerror(number)}.*{advice}"),
        saying_what_failed(Path("x")),
    ):
        raise OSError(number, os.strerror(number))
