"""Numbers in words, from one language to another (package `num2words`).

`forty-two` becomes `quarante-deux`. `data.source` and `data.target` are the languages' codes.
"""

from collections.abc import Iterator
from types import ModuleType

from regard.config import Data
from regard.data.splits import Pair, Split, epoch_random, split_of
from regard.system.errors import UserError
from regard.system.optional import needed

LARGEST = 999_999


def stream(data: Data, split: Split, *, seed: int, epoch: int) -> Iterator[Pair]:
    """Endless numbers from 1 to 999,999; each always belongs to the same split.

    1 to 3 digits, 4, 5 and 6 are equally likely: if every number were, nine in ten would have 6.
    """
    words = needed("num2words", extra="words", what="data of 'numbers'")
    for side, language in (("source", data.source), ("target", data.target)):
        if language not in words.CONVERTER_CLASSES:
            known = ", ".join(sorted(words.CONVERTER_CLASSES))
            raise UserError(
                f"data.{side}={language!r} is not a language of num2words, which knows {known}."
            )
    random = epoch_random(data, split, seed=seed, epoch=epoch)
    while True:
        bound = 10 ** random.integers(3, 7)
        number = int(random.integers(1 if bound == 1000 else bound // 10, bound))
        if split_of(str(number), seed=data.split_seed) == split:
            yield _write(words, number, data.source), _write(words, number, data.target)


def _write(words: ModuleType, number: int, language: str) -> str:
    """A number in words, with plain spaces."""
    try:
        return " ".join(words.num2words(number, lang=language).split())
    except Exception as error:  # what a language of the package lacks shows as any kind of error
        raise UserError(
            f"num2words has no words for {number} in {language!r} ({error}); use another language."
        ) from None
