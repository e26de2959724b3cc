"""Regular expressions as automata: what a text may go on with, one character at a time.

The parts that can be written:

    abc  .  [a-z_]  [^0-9]  \\d \\w \\s \\D \\W \\S  \\n \\t \\\\  (ab|c)  (?:ab|c)
    a*  a+  a?  a{3}  a{2,}  a{2,5}

An expression stands for the whole text. All alternatives are followed at once (Thompson 1968), so
that no expression takes longer than its size times the text: nothing is tried and taken back.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from regard.system.errors import UserError

MOST_PLACES = 10_000
"""The most places of an automaton: a{1000}, nested a few times, would need more than there is."""
DEEPEST = 50
"""The most brackets within brackets."""

CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "w": lambda character: character.isalnum() or character == "_",
    "s": str.isspace,
    "D": lambda character: not character.isdecimal(),
    "W": lambda character: not (character.isalnum() or character == "_"),
    "S": lambda character: not character.isspace(),
}
CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
Places = frozenset[int]
"""Where an automaton may be: each a place in the expression."""
Piece = tuple[int, int]
"""A part of an automaton: the places where it begins and ends."""


@dataclass(frozen=True)
class Characters:
    """A set of characters: ranges and classes, or everything but those."""

    ranges: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    negated: bool = False

    def __contains__(self, character: str) -> bool:
        inside = any(low <= character <= high for low, high in self.ranges)
        inside = inside or any(CLASSES[name](character) for name in self.classes)
        return inside != self.negated


@dataclass
class Automaton:
    """Places with edges: some need a character of a set, others none."""

    free: list[list[int]] = field(default_factory=list)
    """The places that each place leads to without a character."""
    reading: list[tuple[Characters, int] | None] = field(default_factory=list)
    """The place that each place leads to by a character, if it does."""
    start: Places = frozenset()
    end: int = 0
    _steps: dict[tuple[Places, str], Places] = field(default_factory=dict)

    def accepts(self, places: Places) -> bool:
        """Whether the text so far matches the whole expression."""
        return self.end in places

    def step(self, places: Places, character: str) -> Places:
        """Where one more character leads; nowhere, if no match begins with the text."""
        key = (places, character)
        if key not in self._steps:
            edges = (self.reading[place] for place in places)
            self._steps[key] = self.reached(
                edge[1] for edge in edges if edge is not None and character in edge[0]
            )
        return self._steps[key]

    def walk(self, places: Places, text: str) -> Places:
        """Where some more characters lead."""
        for character in text:
            places = self.step(places, character)
        return places

    def reached(self, places: object) -> Places:
        """These places and all that they lead to without a character."""
        waiting: list[int] = list(places)  # type: ignore[call-overload]
        found: set[int] = set()
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting += self.free[place]
        return frozenset(found)

    def add(self) -> int:
        """A new place."""
        if len(self.free) == MOST_PLACES:
            raise UserError(
                f"regex: it needs more than {MOST_PLACES:,} places; repeat fewer times."
            )
        self.free.append([])
        self.reading.append(None)
        return len(self.free) - 1


class _Parser:
    """Reads an expression from left to right, and builds its automaton as it reads."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.automaton = Automaton()

    def parse(self) -> Automaton:
        start, end = self._alternatives()
        if self.at < len(self.text):
            raise self._fault("')' without a '(' before it")
        self.automaton.start, self.automaton.end = self.automaton.reached([start]), end
        return self.automaton

    def _fault(self, reason: str) -> UserError:
        return UserError(
            f"regex: {reason}, at character {self.at + 1} of {self.text!r}. "
            f"docs/decoding.md lists what can be written."
        )

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, what: str) -> bool:
        """Whether this comes next; if so, it is read."""
        taken = self.text.startswith(what, self.at)
        self.at += len(what) * taken
        return taken

    def _alternatives(self) -> Piece:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._fault(f"more than {DEEPEST} brackets within brackets")
        pieces = [self._sequence()]
        while self._take("|"):
            pieces.append(self._sequence())
        self.depth -= 1
        if len(pieces) == 1:
            return pieces[0]
        start, end = self.automaton.add(), self.automaton.add()
        for begins, ends in pieces:
            self.automaton.free[start].append(begins)
            self.automaton.free[ends].append(end)
        return start, end

    def _sequence(self) -> Piece:
        start = end = self.automaton.add()
        while self._next() not in ("", "|", ")"):
            begins, ends = self._repeated()
            self.automaton.free[end].append(begins)
            end = ends
        return start, end

    def _repeated(self) -> Piece:
        """An atom as often as it may come: it is read anew for every copy that is needed."""
        at = self.at
        piece = self._atom()
        least, most = self._count()
        after = self.at
        if (least, most) == (1, 1):
            return piece
        if self._next() in ("?", "+", "*", "{"):
            raise self._fault("a repeat of a repeat; put brackets around the inner one")

        def copy() -> Piece:
            self.at = at
            return self._atom()

        start = end = self.automaton.add()
        for number in range(max(least, 1 if most is None else most)):
            begins, ends = piece if number == 0 else copy()
            stop = self.automaton.add()
            self.automaton.free[end].append(begins)
            self.automaton.free[ends].append(stop)
            if number >= least:
                self.automaton.free[end].append(stop)  # this copy may be left out
            if most is None and number == max(least, 1) - 1:
                self.automaton.free[stop].append(begins)  # the last one may come again
            end = stop
        self.at = after
        return start, end

    def _count(self) -> tuple[int, int | None]:
        """How often the atom before comes, at least and at most; None: without end."""
        if self._next() in REPEATS:
            repeat = REPEATS[self._next()]
            self.at += 1
            return repeat
        if not self._take("{"):
            return 1, 1
        least = self._number()
        most: int | None = least
        if self._take(","):
            most = None if self._next() == "}" else self._number()
        if not self._take("}"):
            raise self._fault("'{' without its '}': write {3}, {2,} or {2,5}")
        if most is not None and most < least:
            raise self._fault(f"{{{least},{most}}} ends below where it begins")
        return least, most

    def _number(self) -> int:
        begin = self.at
        while self._next().isdecimal() and self._next().isascii():
            self.at += 1
        digits = self.text[begin : self.at]
        if not 1 <= len(digits) <= 4:
            raise self._fault("a number of up to four digits is expected")
        return int(digits)

    def _atom(self) -> Piece:
        if self._take("("):
            if self._take("?") and not self._take(":"):
                raise self._fault("'(?' may only be '(?:', a plain group")
            piece = self._alternatives()
            if not self._take(")"):
                raise self._fault("'(' without its ')'")
            return piece
        if self._next() in ("^", "$"):
            raise self._fault(f"{self._next()!r} is not needed: the whole output must match")
        if self._next() in ("*", "+", "?", "{"):
            raise self._fault(f"{self._next()!r} has nothing before it to repeat")
        start, end = self.automaton.add(), self.automaton.add()
        self.automaton.reading[start] = (self._characters(), end)
        return start, end

    def _characters(self) -> Characters:
        if self._take("["):
            return self._set()
        if self._take("."):
            return Characters((("\n", "\n"),), negated=True)
        return self._single()

    def _single(self) -> Characters:
        """One character, which may be escaped, or one class."""
        escaped = self._take("\\")
        character = self._next()
        if not character:
            raise self._fault("it ends within a set or after '\\'")
        if escaped and character in CLASSES:
            self.at += 1
            return Characters(classes=(character,))
        if escaped and character.isalnum():
            if character not in CONTROL:
                raise self._fault(f"'\\{character}' is not known here")
            character = CONTROL[character]
        self.at += 1
        return Characters(((character, character),))

    def _set(self) -> Characters:
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        classes: list[str] = []
        while not self._take("]"):
            member = self._single()
            classes += member.classes
            if (
                member.ranges
                and self._next() == "-"
                and self.text[self.at + 1 : self.at + 2] != "]"
            ):
                self.at += 1
                last = self._single()
                if not last.ranges or last.ranges[0][0] < member.ranges[0][0]:
                    raise self._fault("a range ends below where it begins")
                member = Characters(((member.ranges[0][0], last.ranges[0][0]),))
            ranges += member.ranges
        if not (ranges or classes):
            raise self._fault("an empty set matches nothing")
        return Characters(tuple(ranges), tuple(classes), negated)


def parse_pattern(text: str) -> Automaton:
    """The automaton of a regular expression; UserError if it is not one, or cannot be used here."""
    return _Parser(text).parse()


def literal(text: str) -> str:
    """The expression that matches this text alone."""
    return "".join(
        character if character.isalnum() or character.isspace() else f"\\{character}"
        for character in text
    )
