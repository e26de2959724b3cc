"""The words of a text in any language: runs of letters and digits, Han characters, other signs."""

import re

WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]")


def words(text: str) -> list[str]:
    """Words and punctuation, each Han character by itself; spaces are left out."""
    return WORD.findall(text)
