"""Outputs for many lines: the same whoever computes them."""

from pathlib import Path

import pytest
import torch

from regard import load
from regard.system.errors import UserError


@pytest.mark.parametrize("decoding", [{"beam": 3}, {"strategy": "sample", "seed": 3}])
def test_two_threads_write_what_one_writes(tiny_run: Path, two_threads, decoding) -> None:
    run = load(tiny_run)
    lines = [" ".join(str(n * k % 10) for n in range(1 + k % 7)) for k in range(40)]
    by_two = run.predict(lines, **decoding)
    assert torch.get_num_threads() == 2  # as it was
    torch.set_num_threads(1)
    assert run.predict(lines, **decoding) == by_two


def test_a_fault_in_a_thread_comes_out(tiny_run: Path, two_threads, monkeypatch) -> None:
    run = load(tiny_run)

    def fails(*_: object) -> None:
        raise UserError("no")

    monkeypatch.setattr(run.model, "start", fails)
    with pytest.raises(UserError, match="no"):
        run.predict(["1 2"] * 40)
    assert torch.get_num_threads() == 2
