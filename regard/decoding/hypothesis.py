"""Hypothesis: one sequence that a search found."""

from dataclasses import dataclass, field

Place = tuple[int, int]
"""Where a hypothesis ends in a stream of steps: the step, counted from 0, and its candidate."""


@dataclass(frozen=True)
class Hypothesis:
    """Tokens without `<s>` and `</s>`, and how good they are."""

    tokens: list[int]
    score: float
    """What hypotheses are ranked by: the log-probability; in a beam, over the length penalty."""
    log_probability: float
    """Σ log p(token | tokens before it), `</s>` included."""
    finished: bool
    """Whether it ended by itself (or by a stop string), and not at max_new_tokens."""
    place: Place = field(default=(-1, -1), compare=False, repr=False)
    """The candidate that it ends with, by which readers of the same stream know it."""
