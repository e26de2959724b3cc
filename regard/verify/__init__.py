"""The equalities that are promised: parts against torch.nn, fast paths against readable ones.

`regard verify` prints each with its largest difference, and the tests hold each to its tolerance.
"""

from regard.run import Run
from regard.verify.against_torch import torch_checks
from regard.verify.check import Check
from regard.verify.within import decoding_checks, model_checks, random_models, run_checks

__all__ = ["Check", "checks"]


def checks(run: Run | None = None) -> list[Check]:
    """All equalities, on small random models; and on a run's own model, if one is given."""
    found = list(torch_checks())
    for label, model in random_models().items():
        found += [*model_checks(model, label=label), *decoding_checks(model, label=label)]
    return found + (list(run_checks(run)) if run else [])
