"""Logits of the next token to sequences: a stream of steps, batched, for every model that can step.

`search` makes the steps, `collect` the hypotheses; other readers stand beside it.
"""

from regard.decoding.beam import beam_search, length_penalty
from regard.decoding.collect import collect
from regard.decoding.ensemble import Ensemble
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.probabilities import TokenProbabilities, TokenProbability
from regard.decoding.rules import Rules
from regard.decoding.search import STRATEGIES, search
from regard.decoding.step import Step
from regard.decoding.stepper import Replay, Stepper
from regard.decoding.stop import before_stop, stop_at
from regard.decoding.streaming import stream_texts, stream_tokens
from regard.decoding.tree import Node, Tree

__all__ = [
    "STRATEGIES",
    "Ensemble",
    "Hypothesis",
    "Node",
    "Replay",
    "Rules",
    "Step",
    "Stepper",
    "TokenProbabilities",
    "TokenProbability",
    "Tree",
    "beam_search",
    "before_stop",
    "collect",
    "greedy",
    "length_penalty",
    "search",
    "stop_at",
    "stream_texts",
    "stream_tokens",
]
