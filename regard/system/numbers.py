"""Probabilities that are numbers: NaN or infinite weights are noticed in what they give."""

import math

from torch import Tensor

from regard.system.errors import UserError


def refuse_nan(log_probabilities: Tensor) -> None:
    """Refuse probabilities, or their logarithms, if one of them is NaN; −∞ is the log of 0.

    One NaN makes the sum NaN: it is one number to fetch, however many there are.
    """
    if math.isnan(float(log_probabilities.sum())):
        raise UserError(
            "The model gives NaN in place of probabilities: its weights are damaged, or its "
            "training has diverged. Put a good copy of them back, or train with a lower train.lr."
        )
