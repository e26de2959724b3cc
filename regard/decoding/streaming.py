"""Outputs while they grow: token by token, or piece of text by piece of text."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from regard.decoding.step import Step
from regard.decoding.stop import before_stop

INCOMPLETE = "\ufffd"
"""What a tokenizer decodes the first bytes of a character to, until the rest of them comes."""


def stream_tokens(steps: Iterable[Step]) -> Iterator[tuple[int, int]]:
    """(row, token) as they are generated, without the token that ends a row.

    Rows are numbered as the search begins with them: one per source, or n per source where n
    outputs of each are sampled. Beam search revises what it had, so its outputs cannot be streamed.
    """
    for row, token, _ in _growth(steps):
        if token is not None:
            yield row, token


def stream_texts(
    steps: Iterable[Step], text: Callable[[list[int]], str], *, stop: Sequence[str] = ()
) -> Iterator[tuple[int, str]]:
    """(row, piece of text) as they are generated: the pieces of a row make up its whole text.

    text: how tokens become text. A piece waits while its last character is incomplete, and while
    it may be the beginning of a stop string; what follows the first stop string is left out.
    """
    tokens: dict[int, list[int]] = {}
    shown: dict[int, str] = {}
    for row, token, ended in _growth(steps):
        output = tokens.setdefault(row, [])
        output += [] if token is None else [token]
        whole = before_stop(text(output), stop)
        ready = whole if ended else _certain(whole, stop)
        if ready.startswith(before := shown.get(row, "")) and ready != before:
            shown[row] = ready
            yield row, ready[len(before) :]


def _growth(steps: Iterable[Step]) -> Iterator[tuple[int, int | None, bool]]:
    """(row, new token or None, whether the row has ended) for each change to a row."""
    numbers: dict[int, int] | None = None  # of the candidates that were kept
    for step in steps:
        parents, tokens = step.parents.tolist(), step.tokens.tolist()
        finished = step.finished.tolist()
        growing = sorted([*step.kept.tolist(), *finished])
        rows = {
            candidate: parents[candidate] if numbers is None else numbers[parents[candidate]]
            for candidate in growing
        }
        if len({*rows.values()}) < len(rows):
            raise ValueError("beam search cannot be streamed: use greedy search or sampling")
        for candidate in growing:
            token = tokens[candidate]
            yield rows[candidate], None if token == step.end else token, candidate in finished
        numbers = {candidate: rows[candidate] for candidate in step.kept.tolist()}
    for row in (numbers or {}).values():
        yield row, None, True  # cut by max_new_tokens


def _certain(text: str, stop: Sequence[str]) -> str:
    """The text without an end that may still change or turn out to be part of a stop string."""
    text = text.rstrip(INCOMPLETE)
    waiting = [
        length
        for string in stop
        for length in range(1, min(len(string), len(text) + 1))
        if text.endswith(string[:length])
    ]
    return text[: len(text) - max(waiting, default=0)]
