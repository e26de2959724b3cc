"""Exact match and F1 of answers, as SQuAD's official script computes them (Rajpurkar et al. 2016).

Answers are compared without case, punctuation, articles and superfluous spaces; an empty one says
that there is no answer. Of several right answers the one counts that is nearest (2018, for 2.0).
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal_answer(text: str) -> str:
    """The text in lower case, without punctuation, then without articles, spaces made one."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def answer_em(answer: str, right: Sequence[str]) -> float:
    """1 if the answer is one of the right ones, in normal form."""
    return float(normal_answer(answer) in map(normal_answer, _right(right)))


def answer_f1(answer: str, right: Sequence[str]) -> float:
    """The largest F1 of its words with those of a right answer."""
    return max(_f1(answer, text) for text in _right(right))


def _right(texts: Sequence[str]) -> list[str]:
    """Right answers that are more than articles and punctuation; none: there is no answer."""
    return [text for text in texts if normal_answer(text)] or [""]


def _f1(answer: str, right: str) -> float:
    """2 precision recall / (precision + recall) of words, each as often as it occurs."""
    words, expected = normal_answer(answer).split(), normal_answer(right).split()
    if not words or not expected:
        return float(words == expected)
    common = (Counter(words) & Counter(expected)).total()
    return 2 * common / (len(words) + len(expected))
