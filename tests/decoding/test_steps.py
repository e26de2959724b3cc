"""The stream of steps: nothing is lost between a search and what its readers make of it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Decode
from regard.decoding import Step, collect, make_rules, search
from regard.system.errors import UserError
from tests.decoding.table import END, START, Table

SEEDS = st.lists(st.integers(5, 9_999), min_size=1, max_size=4)
STRATEGIES = {
    "greedy": Decode(max_new_tokens=7),
    "beam": Decode(strategy="beam", beam=3, n_best=3, max_new_tokens=7),
    "sample": Decode(strategy="sample", n_best=2, max_new_tokens=7),
    "best-of": Decode(strategy="best-of", n_best=2, best_of=3, max_new_tokens=7),
    "beam-sample": Decode(strategy="beam-sample", beam=3, n_best=3, max_new_tokens=7),
}


def stream(seeds: list[int], decode: Decode, *, vocabulary: int = 6):
    table = Table(vocabulary)
    state = table.start(torch.tensor(seeds)[:, None])
    return search(table, state, torch.full((len(seeds),), START), decode, end=END)


def rebuilt(steps: list[Step], number: int, candidate: int) -> list[int]:
    """A hypothesis by its parents, from its last token to its first."""
    tokens = []
    for step in steps[number::-1]:
        tokens.append(int(step.tokens[candidate]))
        candidate = int(step.parents[candidate])
    return tokens[::-1]


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seeds=SEEDS)
def test_parents_rebuild_every_hypothesis_with_its_log_probability(strategy: str, seeds) -> None:
    table, steps = Table(6), list(stream(seeds, STRATEGIES[strategy]))
    for number, step in enumerate(steps):
        assert step.length == number + 1
        for candidate, value in enumerate(step.log_probabilities.tolist()):
            if value == -math.inf:
                continue
            tokens = rebuilt(steps, number, candidate)
            seed = seeds[int(step.sources[step.rows[candidate]])]
            total = sum(
                table.logits(seed, (START, *tokens[:i])).log_softmax(-1)[token].item()
                for i, token in enumerate(tokens)
            )
            assert value == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seeds=SEEDS)
def test_the_endings_of_the_stream_are_the_hypotheses_collected(strategy: str, seeds) -> None:
    decode = STRATEGIES[strategy]
    steps = list(stream(seeds, decode))
    endings: list[list[tuple[float, list[int], bool]]] = [[] for _ in seeds]
    for number, step in enumerate(steps):
        cut = step.kept.tolist() if step is steps[-1] else []
        for candidate in [*step.finished.tolist(), *cut]:
            tokens = rebuilt(steps, number, candidate)
            score = step.log_probabilities[candidate].item() / step.penalty
            assert (tokens[-1] == END) == (candidate not in cut)
            endings[int(step.sources[step.rows[candidate]])].append(
                (score, [token for token in tokens if token != END], candidate not in cut)
            )
    collected = collect(stream(seeds, decode), n_best=decode.n_best)
    for of_source, hypotheses in zip(endings, collected, strict=True):
        of_source.sort(key=lambda ending: -ending[0])
        result = [(one.score, one.tokens, one.finished) for one in hypotheses]
        assert result == of_source[: decode.n_best]


@given(seeds=SEEDS)
def test_kept_finished_and_pruned_are_all_that_was_considered(seeds) -> None:
    """And they are the 2·beam best extensions of a source's rows, up to beam + 1 of each row."""
    table, beam = Table(6), STRATEGIES["beam"].beam
    before: dict[int, list[tuple[list[int], float]]] = {n: [([], 0.0)] for n in range(len(seeds))}
    steps: list[Step] = []
    for step in stream(seeds, STRATEGIES["beam"]):
        steps.append(step)
        fates = [*step.kept.tolist(), *step.finished.tolist(), *step.pruned.tolist()]
        real = (step.log_probabilities > -math.inf).nonzero()[:, 0]
        assert sorted(fates) == real.tolist()
        sources = step.sources[step.rows]
        for source, rows in before.items():
            extensions = sorted(
                total + value
                for tokens, total in rows
                for value in table.logits(seeds[source], (START, *tokens))
                .log_softmax(-1)
                .topk(beam + 1)
                .values.tolist()
            )[: -2 * beam - 1 : -1]
            considered = step.log_probabilities[real[sources[real] == source]]
            assert sorted(considered.tolist(), reverse=True) == pytest.approx(extensions, abs=1e-4)
        before = {}
        for candidate in step.kept.tolist():
            hypothesis = rebuilt(steps, len(steps) - 1, candidate)
            value = step.log_probabilities[candidate].item()
            before.setdefault(int(sources[candidate]), []).append((hypothesis, value))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_row_has_its_whole_distribution(strategy: str) -> None:
    for step in stream([5, 6, 7], STRATEGIES[strategy]):
        R = len(step.sources)
        assert step.next_log_probabilities.shape == (R, 6)
        torch.testing.assert_close(step.next_log_probabilities.exp().sum(-1), torch.ones(R))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_stream_is_made_as_it_is_read(strategy: str) -> None:
    class Counting(Table):
        steps = 0

        def step(self, tokens, state):
            self.steps += 1
            return super().step(tokens, state)

    table = Counting(6)
    state = table.start(torch.tensor([[5]]))
    steps = search(table, state, torch.tensor([START]), STRATEGIES[strategy], end=END)
    assert table.steps == 0
    next(steps)
    assert table.steps == 1


def test_length_ratios_need_lengths() -> None:
    with pytest.raises(ValueError, match="length ratios need the lengths"):
        make_rules(Decode(max_length_ratio=2), end=END)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_gives_no_numbers_is_refused_at_that_step(strategy: str, value: float) -> None:
    class Broken(Table):
        def logits(self, seed: int, prefix: tuple[int, ...]) -> torch.Tensor:
            logits = super().logits(seed, prefix)
            logits[3:] += value if seed == 6 and len(prefix) > 1 else 0.0
            logits[END] -= 9.0  # it goes on
            return logits

    table = Broken(6)
    state = table.start(torch.tensor([[5], [6]]))
    steps = search(table, state, torch.tensor([START] * 2), STRATEGIES[strategy], end=END)
    next(steps)
    with pytest.raises(UserError, match="gives NaN in place of probabilities"):
        next(steps)


def test_a_token_that_cannot_be_is_no_fault_of_the_model() -> None:
    class Sure(Table):
        def logits(self, seed: int, prefix: tuple[int, ...]) -> torch.Tensor:
            logits = super().logits(seed, prefix)
            logits[3:] = -math.inf
            return logits

    for decode in STRATEGIES.values():
        table = Sure(6)
        state = table.start(torch.tensor([[5], [6]]))
        assert len(collect(search(table, state, torch.tensor([START] * 2), decode, end=END))) == 2
