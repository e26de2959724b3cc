"""A reader that leaves, or was never there, ends no command in a traceback."""

import os
import subprocess
import sys
from pathlib import Path

from tests.forks import Forks


def test_a_reader_that_leaves_is_no_error(tiny_run: Path) -> None:
    predict = f"{sys.executable} -m regard predict {tiny_run} --max-new-tokens 1"
    command = f"yes '3 1 2' | head -20000 | {predict} | head -1; exit ${{PIPESTATUS[2]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in result.stderr
    assert "Exception" not in result.stderr
    assert result.returncode == 141


def test_every_command_ends_so_where_nobody_reads() -> None:
    for command in ("recipes", "recipes --json"):
        for unbuffered in ("", "1"):
            piped = f"{sys.executable} -m regard {command} | true; exit ${{PIPESTATUS[0]}}"
            result = subprocess.run(
                ["bash", "-c", piped],
                capture_output=True,
                env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            )
            assert (result.returncode, result.stderr) == (141, b"")


def test_outputs_are_whole_where_nothing_can_be_told(tiny_run: Path) -> None:
    predict = f"{sys.executable} -m regard predict {tiny_run} --max-new-tokens 1"
    result = subprocess.run(
        ["bash", "-c", f"yes '3 1 2' | head -3 | {predict} 2>/dev/full"], capture_output=True
    )
    assert (result.returncode, result.stdout.count(b"\n")) == (0, 3)


def test_training_goes_on_where_nobody_is_told(
    tmp_path: Path, tiny: list[str], forks: Forks
) -> None:
    """Standard error may be closed, or its reader may leave; Python may keep a buffer, or none."""
    train = f"{forks.regard} train sort {' '.join(tiny)} --out"
    for name, ends, unbuffered in (
        ("closed", "2>&-", ""),
        ("left", "2>&1 >/dev/null | true", ""),
        ("unbuffered", "2>&1 >/dev/null | true", "1"),
        ("full", "2>/dev/full", ""),
    ):
        command = f"{train} {name} {ends}; exit ${{PIPESTATUS[0]}}"
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered, "OMP_NUM_THREADS": "1"},
        )
        assert (result.returncode, result.stderr) == (0, b"")
        assert (tmp_path / name / "checkpoints" / "step-6").is_dir()
