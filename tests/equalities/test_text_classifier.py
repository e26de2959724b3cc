"""TextClassifier over a Bert is BertForSequenceClassification of transformers."""

import pytest
import torch
import transformers
from torch import nn

from regard.models import Bert, TextClassifier

SIZE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
TOKENS = torch.tensor([[2, 7, 8, 3, 9, 11, 3], [2, 5, 3, 6, 3, 0, 0]])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0]])
LENGTHS = torch.tensor([7, 5])


def theirs(classes: int) -> nn.Module:
    """A model with large random weights, so that its outputs differ."""
    config = transformers.BertConfig(
        vocab_size=20, intermediate_size=32, max_position_embeddings=16, num_labels=classes, **SIZE
    )
    model = transformers.BertForSequenceClassification(config).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


def copied(model: nn.Module, classes: int) -> TextClassifier:
    """Ours with their weights."""
    body = Bert(20, d_model=16, n_layers=2, n_heads=2, d_ff=32, max_length=16)
    ours = TextClassifier(body, classes).eval()
    embeddings, embedding = model.bert.embeddings, ours.body.embedding
    pairs = [
        (embedding.tokens, embeddings.word_embeddings),
        (embedding.positions, embeddings.position_embeddings),
        (embedding.segments, embeddings.token_type_embeddings),
    ]
    with torch.no_grad():
        for to, source in pairs:
            to.weight.copy_(source.weight)
        embedding.norm.load_state_dict(embeddings.LayerNorm.state_dict())
        for block, layer in zip(ours.body.encoder.layers, model.bert.encoder.layer, strict=True):
            _copy_layer(block, layer)
    ours.body.pooler.linear.load_state_dict(model.bert.pooler.dense.state_dict())
    ours.output.load_state_dict(model.classifier.state_dict())
    return ours


def _copy_layer(block: nn.Module, layer: nn.Module) -> None:
    attention, own = layer.attention, block.self_attention
    parts = [getattr(attention.self, name) for name in ("query", "key", "value")]
    own.projection.weight.copy_(torch.cat([part.weight for part in parts]))
    own.projection.bias.copy_(torch.cat([part.bias for part in parts]))
    own.output.load_state_dict(attention.output.dense.state_dict())
    block.self_attention_residual.norm.load_state_dict(attention.output.LayerNorm.state_dict())
    block.feed_forward.inner.load_state_dict(layer.intermediate.dense.state_dict())
    block.feed_forward.outer.load_state_dict(layer.output.dense.state_dict())
    block.feed_forward_residual.norm.load_state_dict(layer.output.LayerNorm.state_dict())


@pytest.mark.parametrize("classes", [1, 3])
def test_it_equals_bert_for_sequence_classification(classes: int) -> None:
    model = theirs(classes)
    ours = copied(model, classes)
    mask = (torch.arange(7) < LENGTHS[:, None]).long()
    expected = model(TOKENS, attention_mask=mask, token_type_ids=SEGMENTS).logits
    assert (expected[0] - expected[1]).abs().max() > 1e-3
    torch.testing.assert_close(ours(TOKENS, LENGTHS, segments=SEGMENTS), expected)
    loss = nn.functional.mse_loss if classes == 1 else nn.functional.cross_entropy
    targets = torch.tensor([[1.5], [0.5]]) if classes == 1 else torch.tensor([2, 0])
    loss(ours(TOKENS, LENGTHS, segments=SEGMENTS), targets).backward()
    loss(expected, targets).backward()
    torch.testing.assert_close(
        ours.body.embedding.tokens.weight.grad, model.bert.embeddings.word_embeddings.weight.grad
    )
    torch.testing.assert_close(ours.output.weight.grad, model.classifier.weight.grad)
