"""What differs between two configurations, key by key, in words."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

MOST_SHOWN = 5
"""A message names this many keys at most."""


class Change(NamedTuple):
    """A key that has another value than it had; None where it is not given."""

    key: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.now)} and was {_shown(self.before)}"


def changes(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    leaving_out: Callable[[str], bool] = lambda key: False,
) -> list[Change]:
    """The keys, as section.key, in which two configurations differ; `about` aside.

    leaving_out: says of which keys a change does not matter.
    """
    earlier, later = _keys(before), _keys(now)
    return [
        Change(key, earlier.get(key), later.get(key))
        for key in earlier | later
        if earlier.get(key) != later.get(key)
        and not key.startswith("about.")
        and not leaving_out(key)
    ]


def in_words(made: list[Change]) -> str:
    """The first changes, as clauses of a sentence."""
    more = [f"and {len(made) - MOST_SHOWN} more"] if len(made) > MOST_SHOWN else []
    return "; ".join([*map(str, made[:MOST_SHOWN]), *more])


def _keys(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value that is no section, by its full name."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        is_section = isinstance(value, Mapping)
        flat |= _keys(value, f"{prefix}{name}.") if is_section else {f"{prefix}{name}": value}
    return flat


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "not given"
    shown = repr(value) if isinstance(value, str) else str(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
