"""Logits of the next token to sequences: a stream of steps, batched, for every model that can step.

`search` makes the steps, `collect` the hypotheses; other readers stand beside it.
"""

from regard.decoding.beam import beam_search, length_penalty
from regard.decoding.collect import collect
from regard.decoding.constraint import Constraint, make_constraint
from regard.decoding.contrastive import contrastive_search
from regard.decoding.ensemble import Ensemble
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis, TokenProbability
from regard.decoding.probabilities import TokenProbabilities
from regard.decoding.rules import Rules, make_rules
from regard.decoding.search import STRATEGIES, search, stepper_for
from regard.decoding.speculation import Speculative
from regard.decoding.step import Step
from regard.decoding.stepper import Reader, Replay, Stepper
from regard.decoding.stop import before_stop, stop_at
from regard.decoding.streaming import stream_texts, stream_tokens
from regard.decoding.tree import Node, Tree

__all__ = [
    "STRATEGIES",
    "Constraint",
    "Ensemble",
    "Hypothesis",
    "Node",
    "Reader",
    "Replay",
    "Rules",
    "Speculative",
    "Step",
    "Stepper",
    "TokenProbabilities",
    "TokenProbability",
    "Tree",
    "beam_search",
    "before_stop",
    "collect",
    "contrastive_search",
    "greedy",
    "length_penalty",
    "make_constraint",
    "make_rules",
    "search",
    "stepper_for",
    "stop_at",
    "stream_texts",
    "stream_tokens",
]
