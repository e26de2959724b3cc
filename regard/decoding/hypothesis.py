"""Hypothesis: one sequence that decoding found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """Tokens without `<s>` and `</s>`, and what they are worth."""

    tokens: list[int]
    score: float
    """What hypotheses are ranked by: the log-probability; in a beam, over the length penalty."""
    log_probability: float
    """Σ log p(token | tokens before it), `</s>` included."""
    finished: bool
    """Whether it ended by itself, or at max_new_tokens."""
