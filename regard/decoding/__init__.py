"""Next-token scores to sequences: written once, batched, for every model that can step."""

from regard.decoding.beam import beam_search, length_penalty
from regard.decoding.ensemble import Ensemble
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import Rules
from regard.decoding.search import search
from regard.decoding.stepper import Replay, Stepper

__all__ = [
    "Ensemble",
    "Hypothesis",
    "Replay",
    "Rules",
    "Stepper",
    "beam_search",
    "greedy",
    "length_penalty",
    "search",
]
