"""The stream of steps, followed back: every hypothesis is a chain of candidates."""

from collections.abc import Iterable

from jaxtyping import Int
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, Place
from regard.decoding.step import Step


class History:
    """The token and the parent of every candidate of a stream; nothing larger is kept."""

    def __init__(self) -> None:
        self._tensors: list[tuple[Tensor, Tensor]] = []
        self._lists: list[tuple[list[int], list[int]]] = []

    def __len__(self) -> int:
        return len(self._tensors)

    def add(self, step: Step) -> None:
        self._tensors.append((step.tokens, step.parents))

    def path(self, place: Place) -> list[Place]:
        """The candidates from the first step to this one, each the parent of the next."""
        number, candidate = place
        self._read()
        path = []
        while number >= 0:
            path.append((number, candidate))
            candidate = self._lists[number][1][candidate]
            number -= 1
        return path[::-1]

    def tokens(self, place: Place) -> list[int]:
        """The tokens of the hypothesis that ends here."""
        path = self.path(place)
        return [self._lists[number][0][candidate] for number, candidate in path]

    def _read(self) -> None:
        """Bring the steps that were added since to where Python can follow them, once."""
        for tokens, parents in self._tensors[len(self._lists) :]:
            self._lists.append((tokens.tolist(), parents.tolist()))


def collect(steps: Iterable[Step], *, n_best: int = 1) -> list[list[Hypothesis]]:
    """The n_best hypotheses of each source, best first: those that ended, and those that were cut.

    It reads the stream to its end. Only the hypotheses that are returned are put together.
    """
    history = History()
    endings: list[list[tuple[float, float, bool, Place]]] = []
    step = None
    for step in steps:
        history.add(step)
        if len(history) == 1:
            endings = [[] for _ in range(int(step.sources.max()) + 1)]
        if len(step.finished):
            _end(endings, step, step.finished, finished=True)
    if step is not None and len(step.kept):
        _end(endings, step, step.kept, finished=False)
    end = None if step is None else step.end
    return [
        [
            Hypothesis(
                [token for token in history.tokens(place) if token != end],
                score,
                log_probability,
                finished,
                place,
            )
            for score, log_probability, finished, place in sorted(of_source, key=lambda e: -e[0])[
                :n_best
            ]
        ]
        for of_source in endings
    ]


def _end(
    endings: list[list[tuple[float, float, bool, Place]]],
    step: Step,
    candidates: Int[Tensor, "N"],
    *,
    finished: bool,
) -> None:
    """Add the candidates that end here to those of their sources."""
    for candidate, source, log_probability in zip(
        candidates.tolist(),
        step.sources[step.rows[candidates]].tolist(),
        step.log_probabilities[candidates].tolist(),
        strict=True,
    ):
        score = log_probability / step.penalty
        place = (step.length - 1, candidate)
        endings[source].append((score, log_probability, finished, place))
