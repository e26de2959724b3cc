"""Tags that mark entities over words: four ways to write them, and the one that a tagger learns.

    iob1     Mary/I-P  Ann/I-P  Smith/I-P  met/O  Paul/I-P     B- only right after one of its type
    iob2     Mary/B-P  Ann/I-P  Smith/I-P  met/O  Paul/B-P     what a tagger learns and predicts
    bioes    Mary/B-P  Ann/I-P  Smith/E-P  met/O  Paul/S-P
    bmes     Mary/B-P  Ann/M-P  Smith/E-P  met/O  Paul/S-P     Chinese word segmentation: B M E S

Ramshaw & Marcus 1995 (iob1), Tjong Kim Sang & Veenstra 1999 (iob2).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from regard.config.data_keys import Scheme

OUTSIDE = "O"
MARKS: dict[Scheme, str] = {"iob1": "IB", "iob2": "BI", "bioes": "BIES", "bmes": "BMES"}
"""The letters that tags of a scheme begin with."""


class Entity(NamedTuple):
    """Words start, …, end − 1 are one entity; its type is empty where tags are letters alone."""

    type: str
    start: int
    end: int


class Mark(NamedTuple):
    """A tag in its parts: B-PER is ("B", "PER"), O is ("O", "")."""

    letter: str
    type: str


class InvalidTagsError(ValueError):
    """Why tags are no valid sequence; number: the tag at fault, from 0."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number
        self.reason = reason


def entities(tags: Sequence[str], scheme: Scheme) -> list[Entity]:
    """The entities that tags mark, in order; InvalidTagsError if they are no valid sequence."""
    marks = [_mark(number, tag, scheme) for number, tag in enumerate(tags)]
    found: list[Entity] = []
    begun: Entity | None = None
    for number, mark in enumerate(marks):
        goes_on = begun is not None and begun.type == mark.type and mark.letter != OUTSIDE
        if fault := FAULTS[scheme](mark, goes_on, begun is not None):
            raise InvalidTagsError(number, f"{tags[number]} {fault}")
        if begun is not None and (not goes_on or mark.letter == "B"):
            found.append(begun._replace(end=number))
            begun = None
        if begun is None and mark.letter != OUTSIDE:
            begun = Entity(mark.type, number, number)
        if begun is not None and mark.letter in "ES":
            found.append(begun._replace(end=number + 1))
            begun = None
    if begun is not None:
        if scheme in ("bioes", "bmes"):
            raise InvalidTagsError(len(tags) - 1, f"{tags[-1]} is the last tag, {NOT_ENDED}")
        found.append(begun._replace(end=len(tags)))
    return found


def iob2(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """The same entities in iob2; tags without a scheme stay as they are."""
    if scheme == "none":
        return tuple(tags)
    written = [OUTSIDE] * len(tags)
    for entity in entities(tags, scheme):
        suffix = f"-{entity.type}" if entity.type else ""
        written[entity.start : entity.end] = [f"I{suffix}"] * (entity.end - entity.start)
        written[entity.start] = f"B{suffix}"
    return tuple(written)


def iob2_tags(seen: Iterable[str]) -> list[str]:
    """All tags that a tagger needs for the types that are among these: O, and B and I of each."""
    types = sorted({_split(tag).type for tag in set(seen) - {OUTSIDE}})
    suffixes = [f"-{type}" if type else "" for type in types]
    return [OUTSIDE, *(f"{letter}{suffix}" for suffix in suffixes for letter in "BI")]


def are_iob2(tags: Collection[str]) -> bool:
    """Whether each entity begins with a tag of its own: an imported model may have others."""
    marks = [_split(tag) for tag in tags if tag != OUTSIDE]
    begun = {mark.type for mark in marks if mark.letter == "B"}
    return bool(begun) and all(mark.letter in ("B", "I") and mark.type in begun for mark in marks)


def may_follow(tag: str, before: str | None) -> bool:
    """Whether an iob2 tag may stand after another, or at the beginning (None)."""
    mark = _split(tag)
    if mark.letter != "I" or tag == OUTSIDE:
        return True
    return before not in (None, OUTSIDE) and _split(str(before)).type == mark.type


def _split(tag: str) -> Mark:
    letter, _, type = tag.partition("-")
    return Mark(letter, type)


def _mark(number: int, tag: str, scheme: Scheme) -> Mark:
    """A tag in its parts, if its scheme has such tags."""
    mark = _split(tag)
    if tag == OUTSIDE or (mark.letter and mark.letter in MARKS[scheme] and len(mark.letter) == 1):
        return mark
    known = ", ".join(f"{letter}-" for letter in MARKS[scheme])
    raise InvalidTagsError(
        number,
        f"{tag[:40]!r} is no tag of data.scheme={scheme}, whose tags begin with {known} or are "
        f"{OUTSIDE}",
    )


NOT_ENDED = "and the entity before it has no end: E- or S- is its last tag"


def _fault_iob1(mark: Mark, goes_on: bool, within: bool) -> str:
    if mark.letter == "B" and not goes_on:
        return (
            "does not follow an entity of its type; in iob1 any other begins with I- (is it "
            "data.scheme=iob2?)"
        )
    return ""


def _fault_iob2(mark: Mark, goes_on: bool, within: bool) -> str:
    if mark.letter == "I" and not goes_on:
        return "begins an entity; in iob2 that is B- (is it data.scheme=iob1?)"
    return ""


def _fault_closed(mark: Mark, goes_on: bool, within: bool) -> str:
    if mark.letter in "IME" and not goes_on:
        return "does not go on with an entity of its type, which begins with B-"
    if mark.letter in "BSO" and within:
        return f"is here, {NOT_ENDED}"
    return ""


FAULTS: dict[Scheme, Callable[[Mark, bool, bool], str]] = {
    "iob1": _fault_iob1,
    "iob2": _fault_iob2,
    "bioes": _fault_closed,
    "bmes": _fault_closed,
}
"""(tag, whether it goes on with the entity before it, whether there is one) -> what is wrong."""
