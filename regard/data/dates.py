"""Dates written out, in many languages, to ISO 8601 (package `babel`).

`Thursday, March 4, 2021`, `4. März 2021` and `2021年3月4日` all become `2021-03-04`.
"""

import datetime
from collections.abc import Iterator
from functools import cache

from regard.config import Data
from regard.data.splits import Pair, Split, epoch_random, split_of
from regard.system.optional import needed

LOCALES = [
    "en",
    "en_GB",
    "de",
    "fr",
    "es",
    "it",
    "pt",
    "nl",
    "sv",
    "da",
    "nb",
    "fi",
    "pl",
    "cs",
    "sk",
    "sl",
    "hr",
    "hu",
    "ro",
    "bg",
    "ru",
    "uk",
    "el",
    "tr",
    "lt",
    "lv",
    "et",
    "ca",
    "eu",
    "gl",
    "ga",
    "cy",
    "is",
    "sq",
    "sr",
    "be",
    "hy",
    "ka",
    "az",
    "kk",
    "vi",
    "id",
    "ms",
    "tl",
    "sw",
    "af",
    "zh",
    "zh_Hant",
    "ja",
    "ko",
    "th",
    "hi",
    "ar",
    "he",
    "fa",
]

FORMATS = ("full", "long", "medium")

WORDED = ("MMM", "月")
"""A pattern with one of these names the month in letters."""

FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)


@cache
def ways() -> list[tuple[str, str]]:
    """Every locale and format that writes the month as a word, or marks it as Chinese does.

    A month that is a bare number is left out: 04/03/2021 is March to some and April to others.
    """
    babel = needed("babel", extra="words", what="data of 'dates'")
    return [
        (locale, form)
        for locale in LOCALES
        for form in FORMATS
        if any(mark in str(babel.Locale.parse(locale).date_formats[form]) for mark in WORDED)
    ]


def write(day: datetime.date, locale: str, form: str) -> str:
    """A day in the form of this locale, with plain spaces."""
    dates = needed("babel.dates", extra="words", what="data of 'dates'")
    return " ".join(dates.format_date(day, form, locale=locale).split())


def stream(data: Data, split: Split, *, seed: int, epoch: int) -> Iterator[Pair]:
    """Endless dates from 1900 to 2099, each written in a random way.

    A day always belongs to the same split, in whatever language it is written.
    """
    random = epoch_random(data, split, seed=seed, epoch=epoch)
    known = ways()
    days = (LAST - FIRST).days + 1
    while True:
        day = FIRST + datetime.timedelta(days=int(random.integers(days)))
        locale, form = known[random.integers(len(known))]
        if split_of(day.isoformat(), seed=data.split_seed) == split:
            yield write(day, locale, form), day.isoformat()
