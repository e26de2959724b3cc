"""BPE-dropout: a word is cut another way each time, so that a model learns its pieces too."""

import itertools
import json

import numpy as np

from regard.data.examples import Ids
from regard.data.tokenizer import Tokenizer

WAYS = 16
"""Ways to cut a word that are drawn, at most; each occurrence takes one of them, or draws one."""


class BpeDropout:
    """Merges as a tokenizer learned them, each left out with probability `rate` when it is due.

    Provilkov et al. 2020, algorithm 1: of the merges that are possible at a moment, some are
    forgotten for this moment, and the first learned of the others is made. The library can do this
    too, but from randomness that cannot be seeded; here it is a function of (seed, epoch).
    """

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        model = json.loads(tokenizer.json)["model"]
        if model["type"] != "BPE":
            raise ValueError(f"BPE-dropout is for BPE, and this tokenizer is {model['type']}")
        if tokenizer.unknown is None:
            raise ValueError("BPE-dropout needs a tokenizer with an id for unknown characters")
        self._tokenizer = tokenizer
        self._unknown = tokenizer.unknown
        self._rate = rate
        self._ids: dict[str, int] = model["vocab"]
        self._drawn: dict[str, list[Ids]] = {}
        self._ranks = {tuple(merge): rank for rank, merge in enumerate(model["merges"])}

    def encode(self, text: str, random: np.random.Generator) -> Ids:
        """Token ids of a text."""
        row: Ids = []
        for word in self._tokenizer.words(text):
            ways = self._drawn.setdefault(word, [])
            choice = int(random.integers(WAYS))
            if choice >= len(ways):
                ways.append(self.cut(word, random))
            row += ways[min(choice, len(ways) - 1)]
        return row

    def cut(self, word: str, random: np.random.Generator) -> Ids:
        """The pieces of one word, this time."""
        pieces = list(word)
        while len(pieces) > 1:
            possible = [
                (rank, place)
                for place, pair in enumerate(itertools.pairwise(pieces))
                if (rank := self._ranks.get(pair)) is not None
                and (self._rate == 0 or random.random() >= self._rate)
            ]
            if not possible:
                break
            _, place = min(possible)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        return [self._ids.get(piece, self._unknown) for piece in pieces]
