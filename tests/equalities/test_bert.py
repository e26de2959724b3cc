"""Bert is Hugging Face's BertModel: hidden states, pooler, and the gradients of all weights."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn.pooler import Pooler
from regard.pretrained.bert import HEADS, TIED
from regard.pretrained.bert_export import UNPOOLED
from regard.pretrained.names import to_ours
from regard.verify.bert import LONGEST, compare_bert
from regard.verify.bert_heads import MODELS, both, compare_head

TEXT = st.lists(st.integers(4, 19), max_size=4)
ROW = st.builds(
    lambda first, second: [2, *first, 3, *([*second, 3] if second is not None else [])],
    TEXT,
    TEXT | st.none(),
)
"""[CLS] a [SEP], or [CLS] a [SEP] b [SEP]."""


@pytest.mark.parametrize("fast", [True, False])
@given(rows=st.lists(ROW, min_size=1, max_size=4))
def test_ragged_batches_of_one_text_or_two_are_those_of_bert_model(fast, rows) -> None:
    assert max(map(len, rows)) <= LONGEST
    assert compare_bert(fast=fast, rows=rows) <= 1e-5


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("fast", [True, False])
def test_logits_of_every_head_are_those_of_transformers(kind: str, fast: bool) -> None:
    assert compare_head(kind, fast=fast) <= 1e-5


@pytest.mark.parametrize("kind", MODELS)
def test_the_weights_of_every_head_come_back_from_their_names(kind: str) -> None:
    ours, theirs = both(kind, fast=True)
    shapes = {name: tuple(weight.shape) for name, weight in ours.named_parameters()}
    if kind in UNPOOLED:
        shapes = {name: shape for name, shape in shapes.items() if ".pooler." not in name}
    named = {name: w for name, w in theirs.state_dict().items() if name not in TIED}
    back = to_ours(named, shapes, HEADS[kind].table, where="transformers")
    assert back.keys() == shapes.keys()
    assert all(value.equal(ours.get_parameter(name)) for name, value in back.items())


def test_a_pooler_without_its_tanh_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pooler, "forward", lambda self, h, trace=None: self.linear(h[:, 0]))
    assert compare_bert(fast=True) > 1e-5


def test_the_pooler_is_not_the_hidden_state_of_the_first_token() -> None:
    hidden = torch.randn(2, 3, 8)
    assert not torch.allclose(Pooler(8)(hidden), hidden[:, 0])
