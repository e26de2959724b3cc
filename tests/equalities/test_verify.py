"""Every equality that `regard verify` shows, held to its tolerance."""

import pytest
import torch

from regard.nn import SelfAttention
from regard.verify import Check, checks
from regard.verify.against_torch import compare_self_attention


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.name)
def test_equality_holds(check: Check) -> None:
    assert check.difference() <= check.tolerance


def test_every_tolerance_is_at_most_1e_5() -> None:
    assert all(check.tolerance <= 1e-5 for check in checks())


def test_a_wrong_part_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SelfAttention._attend
    monkeypatch.setattr(
        SelfAttention, "_attend", lambda self, q, k, v, **o: right(self, 1.001 * q, k, v, **o)
    )
    assert compare_self_attention(fast=True) > 1e-5


def test_a_trained_run_passes_its_own_equalities(tiny_run) -> None:
    import regard

    run = regard.load(tiny_run)
    own_checks = [check for check in checks(run) if check.name.startswith(str(tiny_run))]
    assert len(own_checks) == 6
    before = torch.cat([p.flatten() for p in run.model.parameters()])
    assert all(check.difference() <= check.tolerance for check in own_checks)
    assert before.equal(torch.cat([p.flatten() for p in run.model.parameters()]))
