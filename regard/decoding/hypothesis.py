"""Hypothesis: one sequence that a search found, and how probable its tokens were."""

from dataclasses import dataclass, field

Place = tuple[int, int]
"""Where a hypothesis ends in a stream of steps: the step, counted from 0, and its candidate."""


@dataclass(frozen=True)
class TokenProbability:
    """One token of a hypothesis."""

    token: int
    log_probability: float
    """log p(token | tokens before it), before any rule."""
    alternatives: list[tuple[int, float]]
    """The most probable tokens here and their log-probabilities, best first; the token itself is
    added at the end where it is not one of them."""


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
    probabilities: list[TokenProbability] | None = field(default=None, compare=False, repr=False)
    """Those of its tokens, `</s>` included, if a reader of the stream has kept them."""
