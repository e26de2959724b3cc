"""Constraint: outputs that match a regular expression, or are one of some given texts."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.decoding.pattern import Automaton, Places, literal, parse_pattern
from regard.system.errors import UserError

MOST_STATES = 1_000
"""The most different states of an automaton that outputs may lead to."""


class Constraint:
    """The tokens that may come next, so that the whole output matches an expression.

    pieces: the text of each token within a text; "" if it has none of its own, such as a part of a
    character, which is then not generated. Where an output begins with a space, which most tokens
    of words do, the match may begin after it.

    All states that outputs can lead to are found once, with the tokens that lead from each to
    another from which a match can still be completed: no output comes to a dead end (Willard &
    Louf 2023, §3).
    """

    def __init__(self, automaton: Automaton, pieces: Sequence[str]) -> None:
        self._automaton = automaton
        self._trie = _trie(pieces)
        self._first = {token: piece for token, piece in enumerate(pieces) if piece[:1] == " "}
        begin: dict[int, Places] = self._leading(automaton.start)
        for token, piece in self._first.items():
            after = automaton.walk(automaton.start, piece[1:])
            if after:
                begin[token] = begin.get(token, frozenset()) | after
        self._begin = begin
        self._next = self._explore(set(begin.values()))
        self._keep_what_can_end()

    def _leading(self, places: Places) -> dict[int, Places]:
        """The tokens that may come here, and where each leads."""
        found: dict[int, Places] = {}
        waiting = [(self._trie, places)]
        while waiting:
            node, here = waiting.pop()
            found.update(dict.fromkeys(node.tokens, here))
            for character, child in node.children.items():
                after = self._automaton.step(here, character)
                if after:
                    waiting.append((child, after))
        return found

    def _explore(self, states: set[Places]) -> dict[Places, dict[int, Places]]:
        """Of every state that outputs can lead to, the tokens that lead to others."""
        leading: dict[Places, dict[int, Places]] = {}
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in leading:
                continue
            if len(leading) == MOST_STATES:
                raise UserError(
                    f"regex: it needs more than {MOST_STATES:,} states with this vocabulary; "
                    f"repeat fewer times."
                )
            leading[state] = self._leading(state)
            waiting += leading[state].values()
        return leading

    def _keep_what_can_end(self) -> None:
        """Leave out the tokens after which no match can be completed."""
        before: dict[Places, set[Places]] = {}
        for state, leading in self._next.items():
            for after in leading.values():
                before.setdefault(after, set()).add(state)
        live: set[Places] = set()
        waiting = [state for state in self._next if self._automaton.accepts(state)]
        while waiting:
            state = waiting.pop()
            if state not in live:
                live.add(state)
                waiting += before.get(state, ())

        def alive(leading: dict[int, Places]) -> dict[int, Places]:
            return {token: after for token, after in leading.items() if after in live}

        self._begin = alive(self._begin)
        self._next = {state: alive(self._next[state]) for state in live}
        if not self._begin:
            raise UserError(
                "regex: no text of this run's vocabulary matches it; every output would be refused."
            )

    def allowed(
        self, generated: Int[Tensor, "R T"], *, end: int, vocab: int
    ) -> Bool[Tensor, "R V"]:
        """True at the tokens that may come next; at `end` where the output matches."""
        allowed = torch.zeros(len(generated), vocab, dtype=torch.bool)
        for row, tokens in enumerate(generated.tolist()):
            leading, accepts = self._begin, self._automaton.accepts(self._automaton.start)
            for token in tokens:
                state = leading.get(token, frozenset())
                leading, accepts = self._next.get(state, {}), self._automaton.accepts(state)
            allowed[row, list(leading)] = True
            allowed[row, end] = accepts
        return allowed.to(generated.device)


class _Node:
    """A place in the tree of all pieces: what they have in common is followed once."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.children: dict[str, _Node] = {}


def _trie(pieces: Sequence[str]) -> _Node:
    root = _Node()
    for token, piece in enumerate(pieces):
        if piece:
            node = root
            for character in piece:
                node = node.children.setdefault(character, _Node())
            node.tokens.append(token)
    return root


def _can_be_spelled(text: str, pieces: set[str]) -> bool:
    """Whether a text, with or without a space before it, is made of pieces."""
    longest = max(map(len, pieces), default=0)
    for whole in (text, f" {text}"):
        reached = {0}
        for end in range(1, len(whole) + 1):
            begins = range(max(0, end - longest), end)
            if any(begin in reached and whole[begin:end] in pieces for begin in begins):
                reached.add(end)
        if len(whole) in reached:
            return True
    return False


def make_constraint(
    pieces: Sequence[str], *, regex: str = "", choices: Sequence[str] = ()
) -> Constraint | None:
    """The constraint that a request names, if it names one; choices: the only outputs there are."""
    if regex and choices:
        raise UserError("regex and choice both say what the output may be: give one of them.")
    known = {*pieces}
    for choice in choices:
        if not choice:
            raise UserError("choice: an empty text is no output; leave it out.")
        if not _can_be_spelled(choice, known):
            raise UserError(f"choice: {choice!r} cannot be spelled with this run's vocabulary.")
    if not regex and not choices:
        return None
    expression = regex or "|".join(map(literal, choices))
    return Constraint(parse_pattern(expression), pieces)
