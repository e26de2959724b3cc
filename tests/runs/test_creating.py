"""Where a run can be created: refused before any data is read, with advice that fits."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from regard.runs.creating import refuse_to_overwrite
from regard.system.errors import UserError
from tests.command import refused
from tests.permissions import shared_folder, without_privileges


@pytest.mark.parametrize("name", [".", "..", "a/..", "/", "here"])
def test_the_current_directory_is_not_replaced(call, tmp_path, monkeypatch, name: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    out = str(tmp_path / "empty") if name == "here" else name
    refused(call("train", "sort", "--out", out), f"--out {Path(out)} is not a directory to create")
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(UserError, match=r"link is a link to empty: a run is not created"):
        refuse_to_overwrite(tmp_path / "link")
    with pytest.raises(UserError, match=r"dangling is a link to nowhere, where there is nothing:"):
        refuse_to_overwrite(tmp_path / "dangling")
    refuse_to_overwrite(tmp_path / "empty")


@pytest.mark.parametrize("length", [250, 300, 5000])
def test_a_name_that_is_too_long_is_told_so(tmp_path: Path, length: int) -> None:
    for place in (tmp_path, tmp_path / "new" / "folder"):
        with pytest.raises(UserError, match=r"File name too long\. Choose a shorter name"):
            refuse_to_overwrite(place / ("x" * length))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_read_only_is_told_so(tmp_path: Path, monkeypatch) -> None:
    def read_only(**options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    with pytest.raises(UserError, match=r"Read-only file system\. Choose a place on a disk that"):
        refuse_to_overwrite(tmp_path / "run")


def test_a_folder_that_may_not_be_written_is_told_so() -> None:
    with (
        shared_folder() as folder,
        without_privileges(),
        pytest.raises(UserError, match=r"Permission denied\. .*change who may write there"),
    ):
        refuse_to_overwrite(folder / "new" / "run")
