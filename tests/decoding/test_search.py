"""Greedy and beam search, on a model and on tables that can be searched exhaustively."""

import itertools
import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Decode
from regard.decoding import Hypothesis, Replay, length_penalty
from regard.decoding.search import STRATEGIES
from regard.decoding.top import top
from regard.verify.within import SOURCES, random_models
from tests.decoding.table import END, START, Table, by_beam, greedily


def exhaustive(table: Table, seed: int, *, longest: int, alpha: float) -> list[Hypothesis]:
    """Every sequence there is, best first: those that end, and those of full length that do not."""
    complete = []
    for length in range(1, longest + 1):
        for tokens in itertools.product(range(table.vocabulary), repeat=length):
            ended = tokens[-1] == END
            if END in tokens[:-1] or (not ended and length < longest):
                continue
            total = sum(
                table.logits(seed, (START, *tokens[:i])).log_softmax(-1)[token].item()
                for i, token in enumerate(tokens)
            )
            body = list(tokens[:-1] if ended else tokens)
            complete.append(Hypothesis(body, total / length_penalty(length, alpha), total, ended))
    return sorted(complete, key=lambda one: -one.score)


@given(
    seed=st.integers(5, 10_000),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    longest=st.integers(1, 4),
)
def test_a_beam_as_wide_as_the_space_is_exhaustive_search(seed, alpha, longest) -> None:
    table = Table(4)
    expected = exhaustive(table, seed, longest=longest, alpha=alpha)[:3]
    hypotheses = by_beam(
        table,
        torch.tensor([[seed]]),
        max_new_tokens=longest,
        beam=4**longest,
        alpha=alpha,
        n_best=3,
    )[0]
    assert [one.tokens for one in hypotheses] == [one.tokens for one in expected]
    for one, other in zip(hypotheses, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.finished == other.finished


def plain_beam(
    table: Table, seed: int, *, longest: int, beam: int, alpha: float
) -> list[Hypothesis]:
    """Beam search as textbooks have it: one source, lists, and no stopping before the end."""
    going: list[tuple[list[int], float]] = [([], 0.0)]
    finished = []
    for length in range(1, longest + 1):
        extended = [
            ([*tokens, token], total + value)
            for tokens, total in going
            for token, value in enumerate(
                table.logits(seed, (START, *tokens)).log_softmax(-1).tolist()
            )
        ]
        extended.sort(key=lambda one: -one[1])
        finished += [
            Hypothesis(tokens[:-1], total / length_penalty(length, alpha), total, True)
            for tokens, total in extended[:beam]
            if tokens[-1] == END
        ]
        going = [one for one in extended if one[0][-1] != END][:beam]
    finished += [
        Hypothesis(tokens, total / length_penalty(longest, alpha), total, False)
        for tokens, total in going
    ]
    return sorted(finished, key=lambda one: -one.score)


@given(
    seeds=st.lists(st.integers(5, 10_000), min_size=1, max_size=4),
    beam=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.5]),
    n_best=st.integers(1, 5),
)
def test_a_narrow_beam_equals_the_plain_one_that_never_stops_early(
    seeds, beam, alpha, n_best
) -> None:
    n_best = min(n_best, beam)
    table, source = Table(6), torch.tensor(seeds)[:, None]
    outputs = by_beam(table, source, max_new_tokens=7, beam=beam, alpha=alpha, n_best=n_best)
    for seed, hypotheses in zip(seeds, outputs, strict=True):
        expected = plain_beam(table, seed, longest=7, beam=beam, alpha=alpha)[:n_best]
        assert [one.tokens for one in hypotheses] == [one.tokens for one in expected]
        for one, other in zip(hypotheses, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)


@given(vocabulary=st.integers(1, 3000), count=st.integers(1, 12), seed=st.integers(0, 99))
def test_top_by_chunks_is_top(vocabulary, count, seed) -> None:
    torch.manual_seed(seed)
    logits = torch.randn(3, vocabulary)
    count = min(count, vocabulary)
    values, places = top(logits, count)
    assert values.equal(logits.topk(count).values)
    assert logits.gather(1, places).equal(values)


def test_what_is_never_generated_is_not_generated() -> None:
    table, source = Table(5), torch.arange(5, 45)[:, None]
    options = {"max_new_tokens": 6, "never": (0, 1, 3)}
    for hypotheses in by_beam(table, source, beam=9, n_best=9, **options):
        assert all(set(one.tokens) <= {4} for one in hypotheses)
        assert all(one.score > -math.inf for one in hypotheses)
    assert all(set(one.tokens) <= {4} for one in greedily(table, source, **options))


@given(seeds=st.lists(st.integers(5, 10_000), min_size=1, max_size=6))
def test_a_beam_of_one_without_a_penalty_is_greedily(seeds) -> None:
    table, source = Table(5), torch.tensor(seeds)[:, None]
    options = {"max_new_tokens": 5}
    beams = by_beam(table, source, beam=1, alpha=0.0, **options)
    assert [one[0].tokens for one in beams] == [
        one.tokens for one in greedily(table, source, **options)
    ]


@given(seeds=st.lists(st.integers(5, 10_000), min_size=1, max_size=6), beam=st.integers(1, 4))
def test_a_batch_decodes_as_its_rows_do(seeds, beam) -> None:
    table, options = Table(5), {"max_new_tokens": 6}
    source = torch.tensor(seeds)[:, None]
    together = by_beam(table, source, beam=beam, n_best=beam, **options)
    apart = [by_beam(table, row[None], beam=beam, n_best=beam, **options)[0] for row in source]
    assert together == apart
    assert greedily(table, source, **options) == [
        greedily(table, row[None], **options)[0] for row in source
    ]


@pytest.mark.parametrize("name", random_models())
def test_cached_decoding_equals_uncached(name: str) -> None:
    from regard.data.batches import pad

    model, options = random_models()[name], {"max_new_tokens": 10}
    source = pad(SOURCES)
    for search in (greedily, by_beam):
        cached, replayed = (
            search(model, source, **options),
            search(Replay(model), source, **options),
        )
        for one, other in zip(cached, replayed, strict=True):
            one, other = (x[0] if isinstance(x, list) else x for x in (one, other))
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, abs=1e-5)


class Ending(Table):
    """Ends a source after as many tokens as its number says; counts the rows of every step."""

    def __init__(self) -> None:
        super().__init__(4)
        self.rows: list[int] = []

    def logits(self, seed: int, prefix: tuple[int, ...]) -> torch.Tensor:
        logits = torch.tensor([-9.0, -9.0, -9.0, 9.0])
        return logits if len(prefix) <= seed else -logits + torch.tensor([0, 0, 9.0, 0])

    def step(self, tokens, state):
        self.rows.append(len(tokens))
        return super().step(tokens, state)


def test_rows_that_have_ended_leave_the_batch() -> None:
    model = Ending()
    hypotheses = greedily(model, torch.tensor([[1], [3], [2]]), max_new_tokens=9)
    assert [len(one.tokens) for one in hypotheses] == [1, 3, 2]
    assert model.rows == [3, 3, 2, 1]
    model = Ending()
    hypotheses = by_beam(model, torch.tensor([[1], [3], [2]]), max_new_tokens=9, beam=2)
    assert [len(one[0].tokens) for one in hypotheses] == [1, 3, 2]
    assert model.rows[-1] == 2  # the beam of the last source alone


def test_max_new_tokens_ends_what_does_not_end() -> None:
    options = {"max_new_tokens": 3}
    source = torch.tensor([[7]])
    best = by_beam(Ending(), source, **options)[0][0]
    for result in (greedily(Ending(), source, **options)[0], best):
        assert (result.tokens, result.finished) == ([3, 3, 3], False)


def test_scores_are_log_probabilities_over_the_penalty() -> None:
    best = by_beam(Table(5), torch.tensor([[77]]), max_new_tokens=6, beam=3, alpha=0.8)[0][0]
    length = len(best.tokens) + best.finished
    assert best.score == pytest.approx(best.log_probability / ((5 + length) / 6) ** 0.8)
    table, total = Table(5), 0.0
    for i, token in enumerate([*best.tokens, END][:length]):
        total += table.logits(77, (START, *best.tokens[:i])).log_softmax(-1)[token].item()
    assert best.log_probability == pytest.approx(total, abs=1e-5)


def test_length_penalty_by_hand() -> None:
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(99, 0.0) == 1
    assert length_penalty(7, 0.5) == math.sqrt(2)


def test_n_best_is_at_most_the_beam() -> None:
    with pytest.raises(ValueError, match="n_best=3 is more than beam=2"):
        by_beam(Table(4), torch.tensor([[1]]), max_new_tokens=2, beam=2, n_best=3)


def test_every_strategy_that_a_configuration_may_name_is_in_the_table() -> None:
    assert set(get_args(Decode.model_fields["strategy"].annotation)) == set(STRATEGIES)
