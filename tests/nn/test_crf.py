"""The conditional random field against brute force over all sequences of tags."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn.crf import LinearChainCRF, Transitions, log_partition, path_score, viterbi


def score(logits: torch.Tensor, tags: tuple[int, ...], by: Transitions) -> float:
    """s(y), term by term."""
    total = by.start[tags[0]] + by.end[tags[-1]]
    total = total + sum(logits[position, tag] for position, tag in enumerate(tags))
    return float(total + sum(by.between[a, b] for a, b in itertools.pairwise(tags)))


def random_case(
    seed: int, B: int, L: int, C: int
) -> tuple[torch.Tensor, torch.Tensor, Transitions]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(B, L, C, generator=generator)
    lengths = torch.randint(1, L + 1, (B,), generator=generator)
    scores = (torch.randn(*shape, generator=generator) for shape in ((C,), (C, C), (C,)))
    return logits, lengths, Transitions(*scores)


sizes = {"seed": st.integers(0, 10**6), "B": st.integers(1, 3), "L": st.integers(1, 4)}


@given(**sizes, C=st.integers(1, 4))
def test_forward_algorithm_and_viterbi_equal_brute_force(seed: int, B: int, L: int, C: int) -> None:
    logits, lengths, transitions = random_case(seed, B, L, C)
    totals = log_partition(logits, lengths, transitions).tolist()
    best = viterbi(logits, lengths, transitions)
    for row, length in enumerate(lengths.tolist()):
        scores = {
            tags: score(logits[row], tags, transitions)
            for tags in itertools.product(range(C), repeat=length)
        }
        largest = max(scores.values())
        assert totals[row] == pytest.approx(
            largest + math.log(sum(math.exp(value - largest) for value in scores.values())),
            abs=1e-4,
        )
        found = tuple(best[row, :length].tolist())
        assert scores[found] == pytest.approx(largest, abs=1e-4)
        assert best[row, length:].eq(0).all()
        tags = torch.tensor([[*found, *[C] * (L - length)]])  # no tag at padding
        scored = path_score(logits[row, None], tags, lengths[row, None], transitions)
        assert scored.item() == pytest.approx(largest, abs=1e-4)


@given(**sizes, C=st.integers(1, 4))
def test_probabilities_of_all_sequences_sum_to_one(seed: int, B: int, L: int, C: int) -> None:
    logits, _, _ = random_case(seed, 1, L, C)
    torch.manual_seed(seed)
    crf = LinearChainCRF(C)
    every = torch.tensor(list(itertools.product(range(C), repeat=L)))
    rows = len(every)
    log_p = crf(logits.expand(rows, L, C), every, torch.full((rows,), L))
    assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-4)


@given(**sizes, C=st.integers(2, 4))
def test_padding_changes_nothing_and_has_no_gradient(seed: int, B: int, L: int, C: int) -> None:
    logits, lengths, _ = random_case(seed, B, L, C)
    torch.manual_seed(seed)
    crf = LinearChainCRF(C)
    tags = torch.randint(C, (B, L))
    logits.requires_grad_()
    together = crf(logits, tags, lengths)
    together.sum().backward()
    padding = torch.arange(L) >= lengths[:, None]
    assert logits.grad is not None
    assert logits.grad[padding].eq(0).all()
    assert logits.grad.isfinite().all()
    for row, length in enumerate(lengths.tolist()):
        alone = crf(logits[row, None, :length], tags[row, None, :length], lengths[row, None])
        torch.testing.assert_close(alone[0], together[row])
    wider = torch.cat([logits, torch.full((B, 2, C), 1e4)], dim=1).detach()
    best = viterbi(wider, lengths, crf.transitions)
    assert best[:, :L].equal(viterbi(logits, lengths, crf.transitions))


def test_what_is_not_allowed_is_never_found() -> None:
    logits = torch.tensor([[[0.0, 9.0], [0.0, 9.0], [0.0, 9.0]]])
    blocked = Transitions(
        torch.tensor([0.0, -torch.inf]),
        torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]),
        torch.zeros(2),
    )
    assert viterbi(logits, torch.tensor([3]), blocked).tolist() == [[0, 1, 0]]


def test_probabilities_are_computed_in_full_precision() -> None:
    logits, lengths, _ = random_case(0, 2, 4, 3)
    crf, tags = LinearChainCRF(3), torch.zeros(2, 4, dtype=torch.int64)
    low = crf(logits.bfloat16(), tags, lengths)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, crf(logits.bfloat16().float(), tags, lengths))
