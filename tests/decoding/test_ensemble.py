"""Ensembles: the mean of probabilities; one member twice is that member."""

import pytest
import torch

from regard.data.batches import pad
from regard.decoding import Ensemble, Replay
from regard.verify.within import SOURCES, TARGETS, random_models
from tests.decoding.table import by_beam


@pytest.fixture(scope="module")
def members():
    models = random_models()
    return [models["Transformer (pre-norm, rotary)"], models["AttentionSeq2Seq (gru, bahdanau)"]]


def generated(model) -> list:
    return by_beam(model, pad(SOURCES), max_new_tokens=6, beam=3, n_best=3)


def test_probabilities_are_averaged(members) -> None:
    source, target = pad(SOURCES), pad(TARGETS)
    with torch.inference_mode():
        expected = torch.stack([one(source, target).softmax(-1) for one in members]).mean(0)
        torch.testing.assert_close(Ensemble(members)(source, target).exp(), expected)


def test_members_of_different_kinds_step_as_they_compute_at_once(members) -> None:
    cached, replayed = generated(Ensemble(members)), generated(Replay(Ensemble(members)))
    for one, other in zip(cached, replayed, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_one_member_twice_is_that_member(members) -> None:
    alone, twice = generated(members[0]), generated(Ensemble([members[0]] * 2))
    assert [[h.tokens for h in one] for one in alone] == [[h.tokens for h in one] for one in twice]
    with pytest.raises(ValueError, match="at least one member"):
        Ensemble([])
