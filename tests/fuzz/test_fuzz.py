"""A few hundred cases of the fuzzer; `make fuzz` runs ten thousand."""

import subprocess
import sys
from pathlib import Path

CASES = 300


def test_no_case_ends_in_a_traceback_a_hang_or_a_silent_change() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--cases", str(CASES), "--jobs", "1"],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{CASES:,} cases" in result.stdout or "cases (" in result.stdout
