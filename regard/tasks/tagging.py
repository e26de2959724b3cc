"""What a tagger says of a line, and how it reads one."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.tasks.prediction import Prediction


@dataclass(frozen=True)
class TaggedEntity:
    """Words that are one entity: words[start:end]."""

    type: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Tagging(Prediction):
    """The tags of the words of a line; its output is the tags with spaces between them."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    entities: list[TaggedEntity] = field(default_factory=list)

    def details(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "tags": self.tags,
            "entities": [asdict(entity) for entity in self.entities],
        }


def listed_words(line: str) -> list[str] | None:
    """The words of a line that is a JSON list of them, or an object with such a list."""
    if not line.lstrip().startswith(("[", "{")):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    listed = value.get("words") if isinstance(value, dict) else value
    words = isinstance(listed, list) and all(isinstance(word, str) for word in listed)
    return listed if words else None
