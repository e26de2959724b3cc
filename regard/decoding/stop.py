"""Stop strings: an output ends where its text contains one of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from regard.decoding.step import Step


def stop_at(
    steps: Iterable[Step], strings: Sequence[str], text: Callable[[list[int]], str]
) -> Iterator[Step]:
    """The same steps, in which a hypothesis whose text contains one of the strings has ended.

    It stands between a search and its other readers: they read the hypothesis as finished, and the
    search goes on without it. The tokens that complete the string remain in the hypothesis;
    `before_stop` cuts them off its text.
    """
    if "" in strings:
        raise ValueError("an empty stop string would end every output before its first token")
    before: dict[int, list[int]] = {}  # the tokens of every candidate that was kept
    for step in steps:
        tokens, parents = step.tokens.tolist(), step.parents.tolist()
        outputs = {
            candidate: [*before.get(parents[candidate], []), tokens[candidate]]
            for candidate in step.kept.tolist()
        }
        texts = {candidate: text(output) for candidate, output in outputs.items()}
        stopped = [
            candidate
            for candidate, written in texts.items()
            if any(string in written for string in strings)
        ]
        if stopped:
            step.finish(step.kept.new_tensor(stopped))
        before = outputs
        yield step


def before_stop(text: str, strings: Sequence[str]) -> str:
    """The text up to the first stop string in it."""
    places = [place for string in strings if (place := text.find(string)) >= 0]
    return text[: min(places, default=len(text))]
