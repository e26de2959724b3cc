"""What came of a command, and what a refusal looks like."""

import json
from dataclasses import dataclass


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        assert self.out.count("\n") == 1, "one JSON object on standard output, and nothing else"
        return json.loads(self.out)


def refused(result: Result, *words: str) -> None:
    """Exit code 2, one sentence on standard error that says what is wrong, nothing else."""
    assert result.code == 2, result.err
    assert result.out == ""
    assert "Traceback" not in result.err
    lines = [line for line in result.err.splitlines() if line]
    assert len(lines) == 1, result.err
    assert lines[0].startswith("regard: ")
    for word in words:
        assert word in lines[0]
