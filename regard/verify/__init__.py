"""The equalities that are promised: parts against torch.nn, fast paths against readable ones.

`regard verify` prints each with its largest difference, and the tests hold each to its tolerance.
"""

from regard.run import Run
from regard.verify.against_torch import torch_checks
from regard.verify.check import Check
from regard.verify.within import decoding_checks, model_checks, random_model, run_checks

__all__ = ["Check", "checks"]


def checks(run: Run | None = None) -> list[Check]:
    """All equalities, on small random models; and on a run's own model, if one is given."""
    within = [
        check
        for norm in ("pre", "post")
        for check in model_checks(random_model(norm=norm), label=f"Transformer ({norm}-norm)")
    ]
    return [*torch_checks(), *within, *decoding_checks(), *(run_checks(run) if run else [])]
