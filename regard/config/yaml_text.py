"""YAML as plain data: small, without surprises, each fault with its line and its reason.

Numbers and words are read as YAML 1.2 reads them (its core schema). In YAML 1.1, `010` is 8,
`1:30:00` is 5400, `no` is false and `2024-01-01` is a date.
"""

import re
from typing import Any

import yaml

MOST_CHARACTERS = 1_000_000
"""A longer text is no configuration, and would take minutes to read."""
MOST_NODES = 10_000
"""More values than this, each alias counted as what it stands for, are no configuration."""
MOST_LEVELS = 20
"""Sections within sections, and lists within lists, go no deeper than this."""

WHOLE, EXPONENT = r"(0|[1-9][0-9]*)", r"([eE][-+]?[0-9]+)"
WORDS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", ["t", "T", "f", "F"]),
    "int": (r"0|-?[1-9][0-9]*", list("-0123456789")),
    "float": (
        rf"[-+]?((\.[0-9]+|{WHOLE}\.[0-9]*){EXPONENT}?|{WHOLE}{EXPONENT}|\.inf)|\.nan",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}
"""What a word without quotes is, if it is no text: a pattern, and the characters it begins with.

A whole number is written in one way alone, so that as a text it is what was written.
"""


UNREADABLE = (ValueError, KeyError, AttributeError, TypeError, IndexError)
"""What the library raises on a value that is not of the type that its tag names."""


class FaultyYAMLError(ValueError):
    """Why a text is no YAML, and in which line."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class _Loader(yaml.SafeLoader):
    """Plain data of a limited size, no key twice, and numbers in decimal digits."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (as the library declares it)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._levels = 0
        self._sizes: dict[int, tuple[int, int]] = {}
        """Of every finished node: how many values it stands for, and how deep they go."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node; its size is known before anything is made of it.

        Ten aliases of ten aliases of … are a small text, and more values than memory holds.
        """
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark  # of one of two classes of the same name
        is_alias = isinstance(event, yaml.AliasEvent)
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise _fault(f"nested more than {MOST_LEVELS} levels deep", mark)
        node = super().compose_node(parent, index)
        self._levels -= 1
        if not is_alias:
            self._sizes[id(node)] = self._size(node, mark)
        elif id(node) not in self._sizes:
            raise _fault("an alias stands within what it stands for", mark)
        return node

    def _size(self, node: yaml.Node | None, mark: yaml.Mark) -> tuple[int, int]:
        within: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            within = node.value
        elif isinstance(node, yaml.MappingNode):
            within = [part for pair in node.value for part in pair]
        sizes = [self._sizes[id(part)] for part in within]
        count = 1 + sum(count for count, _ in sizes)
        levels = 1 + max((levels for _, levels in sizes), default=0)
        if max(count, len(self._sizes)) > MOST_NODES:
            raise _fault(f"more than {MOST_NODES:,} values, with what aliases stand for", mark)
        if levels > MOST_LEVELS:
            raise _fault(f"nested more than {MOST_LEVELS} levels deep", mark)
        return count, levels

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            text = key.value if isinstance(key, yaml.ScalarNode) else None
            if text is None or key.tag not in (_tag("str"), _tag("merge")):
                shown = "a list or a section" if text is None else repr(text[:40])
                raise _fault(f"{shown} cannot be a key: write a word", key.start_mark)
            if text in seen:
                raise _fault(f"the key {text[:40]!r} occurs twice", key.start_mark)
            seen.add(text)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except UNREADABLE:
            kind = node.tag.rpartition(":")[2]
            raise _fault(f"this cannot be read as {kind}", node.start_mark) from None


def _tag(kind: str) -> str:
    return f"tag:yaml.org,2002:{kind}"


def _fault(reason: str, mark: yaml.Mark | None) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=reason, problem_mark=mark)


class _Dumper(yaml.SafeDumper):
    """Text that the loader would read as something else stands in quotes."""


for _kind, (_pattern, _beginnings) in WORDS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag(_kind), re.compile(rf"(?:{_pattern})\Z"), _beginnings)


def parse(text: str) -> Any:
    """The value that a YAML text holds; FaultyYAMLError if there is none."""
    if len(text) > MOST_CHARACTERS:
        raise FaultyYAMLError(f"it is longer than {MOST_CHARACTERS:,} characters", None)
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = 1 + text.count("\n", 0, error.position)
        reason = f"the character {text[error.position]!r} is not allowed"
        raise FaultyYAMLError(reason, line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "it cannot be read"
        if reason.startswith("but ") and error.context:
            reason = f"{error.context}, {reason}"
        raise FaultyYAMLError(reason, None if mark is None else mark.line + 1) from None
    except (yaml.YAMLError, *UNREADABLE) as error:
        raise FaultyYAMLError(f"it cannot be read ({type(error).__name__})", None) from None


def write(value: Any) -> str:
    """A YAML text that `parse` reads as this value; keys stay in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
