"""How probable each generated token was, and which others might have come in its place."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch import Tensor

from regard.decoding.collect import History
from regard.decoding.hypothesis import Hypothesis, TokenProbability
from regard.decoding.step import Step
from regard.decoding.top import top


class TokenProbabilities:
    """Reads along with a search, and keeps the `count` most probable tokens of every row.

    probabilities = TokenProbabilities(5)
    hypotheses = collect(probabilities.watch(search(…)))
    probabilities.of(hypotheses[0][0])
    """

    def __init__(self, count: int = 5) -> None:
        self._count = count
        self._history = History()
        self._steps: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]] = []

    def watch(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The same steps."""
        for step in steps:
            self._history.add(step)
            log_p = step.next_log_probabilities  # R V
            values, ids = top(log_p, min(self._count, log_p.size(1)))
            own = log_p[step.rows, step.tokens]
            self._steps.append((step.rows, step.tokens, own, ids, values))
            yield step

    def of(self, hypothesis: Hypothesis) -> list[TokenProbability]:
        """Its tokens in order, the `</s>` that ended it included."""
        return [
            self._at(number, candidate)
            for number, candidate in self._history.path(hypothesis.place)
        ]

    def added_to(self, hypotheses: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The same hypotheses of each source, with the probabilities of their tokens."""
        return [
            [replace(one, probabilities=self.of(one)) for one in of_source]
            for of_source in hypotheses
        ]

    def _at(self, number: int, candidate: int) -> TokenProbability:
        rows, tokens, own, ids, values = self._steps[number]
        row, token, log_probability = (
            int(rows[candidate]),
            int(tokens[candidate]),
            float(own[candidate]),
        )
        alternatives = list(zip(ids[row].tolist(), values[row].tolist(), strict=True))
        if token not in (other for other, _ in alternatives):
            alternatives.append((token, log_probability))
        return TokenProbability(token, log_probability, alternatives)
