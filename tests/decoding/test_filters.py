"""Filters: equal to transformers' on random and edge cases, and what is sampled after them."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from regard.config import Decode
from regard.config.strategy import SAMPLING
from regard.decoding.filters import FILTERS, filtered, filters, top_n_sigma
from regard.decoding.sampling import Sampler

NO_TEXT = torch.zeros(4, 1, dtype=torch.long)
THEIRS: dict[str, tuple[Callable, list[float]]] = {
    "temperature": (TemperatureLogitsWarper, [0.1, 0.7, 1.3]),
    "top_k": (TopKLogitsWarper, [1, 3, 99]),
    "top_p": (TopPLogitsWarper, [1e-6, 0.3, 0.9, 0.999]),
    "min_p": (MinPLogitsWarper, [1e-3, 0.2, 1.0]),
    "typical": (TypicalLogitsWarper, [1e-6, 0.2, 0.9, 0.999]),
    "epsilon": (EpsilonLogitsWarper, [1e-3, 0.1, 0.9]),
    "eta": (EtaLogitsWarper, [1e-3, 0.1, 0.9]),
}


def ours(**keys: float) -> Callable[[Tensor], Tensor]:
    chosen = filters(Decode(strategy="sample", **keys))
    return lambda logits: filtered(logits, chosen)


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, (_, values) in THEIRS.items() for value in values]
)
@given(seed=st.integers(0, 999), vocab=st.integers(1, 30), left_out=st.integers(0, 3))
def test_a_filter_is_that_of_transformers(key, value, seed, vocab, left_out) -> None:
    logits = torch.randn(4, vocab, generator=torch.Generator().manual_seed(seed)) * 3
    logits[:, 1 : 1 + left_out] = -torch.inf  # by an earlier filter
    expected = THEIRS[key][0](value)(NO_TEXT, logits)
    torch.testing.assert_close(ours(**{key: value})(logits), expected)


@pytest.mark.parametrize("key", THEIRS)
def test_of_equal_logits_as_many_are_kept_as_in_transformers(key: str) -> None:
    """Which of them, where only some are, is left to the sort."""
    logits = torch.tensor([[2.0, 2.0, 2.0, 2.0], [3.0, 1.0, 1.0, 1.0]] * 2)
    for value in THEIRS[key][1]:
        expected = THEIRS[key][0](value)(NO_TEXT, logits).sort(dim=-1).values
        torch.testing.assert_close(ours(**{key: value})(logits).sort(dim=-1).values, expected)


@given(seed=st.integers(0, 999))
def test_filters_are_applied_in_the_order_of_transformers(seed: int) -> None:
    logits = torch.randn(4, 20, generator=torch.Generator().manual_seed(seed)) * 2
    keys = {
        "temperature": 0.8,
        "top_k": 15,
        "top_p": 0.95,
        "min_p": 0.02,
        "typical": 0.9,
        "epsilon": 0.01,
        "eta": 0.01,
    }
    assert list(keys) == list(THEIRS)
    theirs = LogitsProcessorList([THEIRS[key][0](value) for key, value in keys.items()])
    torch.testing.assert_close(ours(**keys)(logits), theirs(NO_TEXT, logits))


@given(seed=st.integers(0, 999), n=st.floats(0.1, 3), temperature=st.floats(0.2, 5))
def test_top_n_sigma_keeps_the_same_tokens_at_any_temperature(seed, n, temperature) -> None:
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(seed)).double()
    logits[:, 5:9] = -torch.inf
    present = logits[:, [*range(5), *range(9, 40)]]
    least = present.amax(-1, keepdim=True) - n * present.std(-1, correction=0, keepdim=True)
    kept = top_n_sigma(logits, n)
    assert (kept > -torch.inf).equal(logits >= least)
    assert (top_n_sigma(logits / temperature, n) > -torch.inf).equal(kept > -torch.inf)
    one = torch.tensor([[-torch.inf, 1.5, -torch.inf]])
    assert top_n_sigma(one, n).equal(one)


@given(
    seed=st.integers(0, 999),
    keys=st.fixed_dictionaries(
        {},
        optional={
            "top_k": st.integers(1, 9),
            "top_p": st.floats(0.01, 1),
            "min_p": st.floats(0, 1),
            "typical": st.floats(0.01, 1),
            "epsilon": st.floats(0, 0.99),
            "eta": st.floats(0, 0.99),
            "top_n_sigma": st.floats(0.01, 4),
        },
    ),
)
def test_something_is_always_left(seed: int, keys: dict[str, float]) -> None:
    logits = torch.randn(3, 12, generator=torch.Generator().manual_seed(seed)) * 4
    kept = ours(**keys)(logits)
    assert (kept.amax(dim=-1) > -torch.inf).all()
    assert not kept.isnan().any()


def test_every_key_of_sampling_is_a_filter_but_the_seed() -> None:
    assert (*FILTERS, "seed") == SAMPLING
    for key, (_, neutral) in FILTERS.items():
        assert Decode.model_fields[key].default == neutral


CRITICAL = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32}
"""What chi-square exceeds once in a thousand times, by its degrees of freedom."""


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"temperature": 0.6},
        {"top_k": 3},
        {"top_p": 0.8},
        {"min_p": 0.1},
        {"typical": 0.7},
        {"epsilon": 0.06},
        {"eta": 0.2},
        {"top_n_sigma": 1.0},
        {"temperature": 1.4, "top_k": 6, "top_p": 0.9},
    ],
    ids=str,
)
def test_sampled_frequencies_fit_the_filtered_distribution(keys: dict[str, float]) -> None:
    count, rows = 100_000, 1_000
    logits = torch.tensor([[2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5]])
    expected = ours(**keys)(logits).softmax(dim=-1)[0] * count
    sampler, numbers = Sampler(Decode(strategy="sample", **keys), range(rows)), torch.arange(rows)
    observed = torch.zeros(8)
    for _ in range(count // rows):
        observed += sampler(logits.expand(rows, 8), numbers).bincount(minlength=8)
    assert (observed[expected == 0] == 0).all()
    possible = expected > 0
    chi_square = ((observed - expected)[possible].square() / expected[possible]).sum()
    assert chi_square < CRITICAL[int(possible.sum()) - 1]
