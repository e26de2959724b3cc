"""Taggers and span finders equal those of `transformers` with the same weights."""

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification

from regard.models import Bert, SpanFinder, Tagger
from regard.pretrained.names import BERT_CLASSES, BERT_SPAN, to_theirs
from regard.system.tensors import weights

VOCAB, TAGS = 30, 5
SIZES = {"d_model": 24, "n_heads": 3, "d_ff": 40, "n_layers": 2, "max_length": 16}
TOKENS = torch.tensor([[2, 7, 9, 11, 3, 8, 3], [2, 5, 6, 3, 0, 0, 0]])
LENGTHS = torch.tensor([7, 4])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0]])
REAL = torch.arange(7) < LENGTHS[:, None]


def configured(**more: object) -> BertConfig:
    torch.manual_seed(3)
    return BertConfig(
        vocab_size=VOCAB,
        hidden_size=24,
        num_attention_heads=3,
        intermediate_size=40,
        num_hidden_layers=2,
        max_position_embeddings=16,
        **more,
    )


def spread(model: nn.Module) -> nn.Module:
    """Random weights, large enough that logits differ, biases among them."""
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.6)
    return model


@pytest.mark.parametrize("fast", [True, False])
def test_a_tagger_is_bert_for_token_classification(fast: bool) -> None:
    theirs = BertForTokenClassification(configured(num_labels=TAGS))
    ours = spread(Tagger(Bert(VOCAB, pooler=False, fast=fast, **SIZES), TAGS))
    theirs.load_state_dict(to_theirs(weights(ours), BERT_CLASSES, sizes=(24,) * 3))
    with torch.no_grad():
        expected = theirs.eval()(
            input_ids=TOKENS, attention_mask=REAL.long(), token_type_ids=SEGMENTS
        ).logits
        logits = ours.eval()(TOKENS, LENGTHS, segments=SEGMENTS)
    torch.testing.assert_close(logits[REAL], expected[REAL], atol=1e-4, rtol=0)
    assert expected[REAL].std() > 0.1


@pytest.mark.parametrize("fast", [True, False])
def test_a_span_finder_is_bert_for_question_answering(fast: bool) -> None:
    theirs = BertForQuestionAnswering(configured())
    ours = spread(SpanFinder(Bert(VOCAB, pooler=False, fast=fast, **SIZES)))
    theirs.load_state_dict(to_theirs(weights(ours), BERT_SPAN, sizes=(24,) * 3))
    with torch.no_grad():
        expected = theirs.eval()(
            input_ids=TOKENS, attention_mask=REAL.long(), token_type_ids=SEGMENTS
        )
        logits = ours.eval()(TOKENS, LENGTHS, segments=SEGMENTS)
    for mine, other in ((logits.start, expected.start_logits), (logits.end, expected.end_logits)):
        torch.testing.assert_close(mine[REAL], other[REAL], atol=1e-4, rtol=0)
        assert other[REAL].std() > 0.1
