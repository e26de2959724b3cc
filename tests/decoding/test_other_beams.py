"""Diverse beam search and beam sampling, against references written out, slow and plain."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Decode
from regard.decoding import collect, length_penalty, search
from tests.decoding.table import END, START, Table, by_beam

LONGEST = 5


def outputs(seeds: list[int], *, vocabulary: int = 6, numbers=None, **keys):
    decode = Decode(max_new_tokens=LONGEST, **keys)
    table = Table(vocabulary)
    state = table.start(torch.tensor(seeds)[:, None])
    first = torch.full((len(seeds),), START)
    steps = search(table, state, first, decode, end=END, seeds=numbers)
    return collect(steps, n_best=decode.n_best)


def plain_diverse(seed: int, *, groups: int, size: int, diversity: float, alpha: float):
    """One source: lists of hypotheses, each group after the ones before it, and no early end."""
    table = Table(6)
    going: list[list[tuple[list[int], float]]] = [[([], 0.0)] for _ in range(groups)]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, LONGEST + 1):
        taken = [0] * 6
        for group in range(groups):
            extended = [
                ([*tokens, token], total + value - diversity * taken[token])
                for tokens, total in going[group]
                for token, value in enumerate(
                    table.logits(seed, (START, *tokens)).log_softmax(-1).tolist()
                )
            ]
            extended.sort(key=lambda one: -one[1])
            penalty = length_penalty(length, alpha)
            finished += [
                (total / penalty, tokens[:-1])
                for tokens, total in extended[:size]
                if tokens[-1] == END
            ]
            going[group] = [one for one in extended if one[0][-1] != END][:size]
            taken[END] += sum(tokens[-1] == END for tokens, _ in extended[:size])
            for tokens, _ in going[group]:
                taken[tokens[-1]] += 1
    cut = [(total / penalty, tokens) for group in going for tokens, total in group]
    return sorted(finished + cut, key=lambda one: -one[0])


@given(
    seeds=st.lists(st.integers(5, 9_999), min_size=1, max_size=3, unique=True),
    groups=st.integers(1, 3),
    size=st.integers(1, 3),
    diversity=st.sampled_from([0.0, 0.7, 5.0]),
)
def test_diverse_beam_search_is_the_plain_one(seeds, groups, size, diversity) -> None:
    """As far as groups that are done change nothing: α = 0, where they end as the plain ones do."""
    keys = {"beam": groups * size, "beam_groups": groups, "diversity": diversity}
    hypotheses = outputs(seeds, strategy="diverse-beam", n_best=1, length_penalty=0.0, **keys)
    for seed, (best, *_) in zip(seeds, hypotheses, strict=True):
        score, tokens = plain_diverse(
            seed, groups=groups, size=size, diversity=diversity, alpha=0.0
        )[0]
        assert best.tokens == tokens
        assert best.score == pytest.approx(score, abs=1e-4)


def test_groups_differ_where_plain_beams_do_not() -> None:
    seeds, keys = list(range(5, 25)), {"beam": 4, "n_best": 4}
    plain = outputs(seeds, strategy="beam", **keys)
    diverse = outputs(seeds, strategy="diverse-beam", beam_groups=4, diversity=20.0, **keys)

    def beginnings(hypotheses) -> int:
        return sum(len({tuple(one.tokens[:1]) for one in of_source}) for of_source in hypotheses)

    assert beginnings(diverse) > 1.2 * beginnings(plain)


def test_one_group_is_beam_search() -> None:
    keys = {"beam": 3, "n_best": 3}
    assert outputs([5, 6], strategy="diverse-beam", beam_groups=1, **keys) == outputs(
        [5, 6], strategy="beam", **keys
    )


@pytest.mark.parametrize("strategy", ["diverse-beam", "beam-sample", "best-of", "sample"])
@given(seeds=st.lists(st.integers(5, 9_999), min_size=2, max_size=4))
def test_a_batch_is_its_rows(strategy: str, seeds: list[int]) -> None:
    keys = {"strategy": strategy, "n_best": 2}
    numbers = [100 + place for place in range(len(seeds))]
    apart = [
        outputs([seed], numbers=[number], **keys)[0]
        for seed, number in zip(seeds, numbers, strict=True)
    ]
    assert outputs(seeds, numbers=numbers, **keys) == apart


def test_from_one_token_alone_beam_sampling_is_greedy() -> None:
    sampled = outputs([7, 8], strategy="beam-sample", top_k=1, beam=1)
    greedy = outputs([7, 8], strategy="greedy")
    assert [one.tokens for (one,) in sampled] == [one.tokens for (one,) in greedy]


def test_the_candidates_of_beam_sampling_are_samples_without_replacement() -> None:
    """Pairs of first tokens, in any order, against their probability written out."""
    table, count = Table(4), 4_000
    p = table.logits(9, (START,)).softmax(-1).tolist()
    expected: dict[frozenset[int], float] = {}
    for one in range(4):
        for other in range(4):
            if one != other:
                pair = frozenset((one, other))
                chance = p[one] * p[other] / (1 - p[one])
                expected[pair] = expected.get(pair, 0.0) + chance
    decode = Decode(strategy="beam-sample", beam=1, max_new_tokens=1)
    state = table.start(torch.full((count, 1), 9))
    (step,) = search(table, state, torch.full((count,), START), decode, end=END)
    pairs = [frozenset(pair) for pair in step.tokens.view(count, 2).tolist()]
    chi_square = sum(
        (pairs.count(pair) - count * chance) ** 2 / (count * chance)
        for pair, chance in expected.items()
    )
    assert sum(expected.values()) == pytest.approx(1)
    assert chi_square < 20.52  # once in a thousand times, with 5 degrees of freedom


def test_the_best_of_several_samples_is_the_most_probable_of_them() -> None:
    samples = outputs([5, 6], strategy="sample", n_best=6, seed=3)
    for of_source, best in zip(
        samples, outputs([5, 6], strategy="best-of", best_of=6, n_best=2, seed=3), strict=True
    ):
        assert best == sorted(of_source, key=lambda one: -one.log_probability)[:2]


def test_early_stopping_ends_a_beam_with_as_many_endings() -> None:
    table, source = Table(5), torch.arange(5, 45)[:, None]
    early = by_beam(
        table, source, beam=2, n_best=2, max_new_tokens=9, alpha=2.0, early_stopping=True
    )
    late = by_beam(table, source, beam=2, n_best=2, max_new_tokens=9, alpha=2.0)
    assert all(one[0].score <= other[0].score for one, other in zip(early, late, strict=True))
    assert early != late
