"""MaskedLanguageModel is transformers' BertForPreTraining and BertForMaskedLM, weights copied."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import Bert, MaskedLanguageModel

VOCAB, D_MODEL, HEADS, D_FF, LAYERS, LONGEST = 30, 32, 4, 48, 2, 12
TOKENS = torch.tensor([[4, 5, 6, 7, 0, 9, 3, 11], [8, 9, 2, 12, 0, 0, 0, 0]])
LENGTHS = torch.tensor([8, 4])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0, 0]])
REAL = torch.arange(8) < LENGTHS[:, None]


def ours(*, sentence_pair: bool) -> MaskedLanguageModel:
    torch.manual_seed(2)
    sizes: dict[str, Any] = {"d_model": D_MODEL, "n_heads": HEADS, "d_ff": D_FF}
    body = Bert(VOCAB, n_layers=LAYERS, max_length=LONGEST, dropout=0.0, **sizes)
    model = MaskedLanguageModel(body, sentence_pair=sentence_pair)
    with torch.no_grad():
        for weight in model.parameters():  # biases and norms too, which begin as 0 and 1
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def theirs(kind: str) -> Any:
    import transformers

    return getattr(transformers, kind)(
        transformers.BertConfig(
            vocab_size=VOCAB,
            hidden_size=D_MODEL,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=D_FF,
            max_position_embeddings=LONGEST,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=None,
        )
    ).eval()


def places(model: MaskedLanguageModel) -> dict[str, Tensor]:
    """Our weights by their names."""
    embedding = model.body.embedding
    weights = {
        "bert.embeddings.word_embeddings.weight": embedding.tokens.weight,
        "bert.embeddings.position_embeddings.weight": embedding.positions.weight,
        "bert.embeddings.token_type_embeddings.weight": embedding.segments.weight,
        "cls.predictions.bias": model.masked_words.output.bias,
    }
    modules: dict[str, nn.Module | None] = {
        "bert.embeddings.LayerNorm": embedding.norm,
        "bert.pooler.dense": model.body.pooler.linear,
        "cls.predictions.transform.dense": model.masked_words.dense,
        "cls.predictions.transform.LayerNorm": model.masked_words.norm,
        "cls.seq_relationship": model.sentence_pair,
    }
    for number, block in enumerate(model.body.encoder.layers):
        layer = f"bert.encoder.layer.{number}."
        modules |= {
            f"{layer}attention.output.dense": block.self_attention.output,
            f"{layer}attention.output.LayerNorm": block.self_attention_residual.norm,
            f"{layer}intermediate.dense": block.feed_forward.inner,
            f"{layer}output.dense": block.feed_forward.outer,
            f"{layer}output.LayerNorm": block.feed_forward_residual.norm,
        }
        projection = block.self_attention.projection
        for kind in ("weight", "bias"):
            parts = getattr(projection, kind).split(projection.heights)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                weights[f"{layer}attention.self.{name}.{kind}"] = part
    for name, module in modules.items():
        if module is not None:
            weights |= {f"{name}.{kind}": getattr(module, kind) for kind in ("weight", "bias")}
    return weights


def pair(kind: str, *, sentence_pair: bool) -> tuple[MaskedLanguageModel, Any]:
    """A model of ours and one of theirs, with the same weights."""
    model, other = ours(sentence_pair=sentence_pair), theirs(kind)
    copied = {name: weight.detach().clone() for name, weight in places(model).items()}
    copied["cls.predictions.decoder.weight"] = copied["bert.embeddings.word_embeddings.weight"]
    copied["cls.predictions.decoder.bias"] = copied["cls.predictions.bias"]
    for unused in set(copied) - set(other.state_dict()):  # MaskedLM has no pooler
        assert "pooler" in unused
        del copied[unused]
    other.load_state_dict(copied)
    return model, other


def test_logits_and_loss_are_those_of_bert_for_pre_training() -> None:
    model, other = pair("BertForPreTraining", sentence_pair=True)
    words, pairs = model(TOKENS, LENGTHS, segments=SEGMENTS)
    targets = torch.full_like(TOKENS, -100)
    targets[0, 2], targets[0, 6], targets[1, 1] = 5, 8, 13
    classes = torch.tensor([0, 1])
    result = other(
        input_ids=TOKENS,
        attention_mask=REAL,
        token_type_ids=SEGMENTS,
        labels=targets,
        next_sentence_label=classes,
    )
    torch.testing.assert_close(words[REAL], result.prediction_logits[REAL], atol=1e-5, rtol=0)
    torch.testing.assert_close(pairs, result.seq_relationship_logits, atol=1e-5, rtol=0)
    loss = F.cross_entropy(words.flatten(0, 1), targets.flatten()) + F.cross_entropy(pairs, classes)
    torch.testing.assert_close(loss, result.loss, atol=1e-5, rtol=0)
    loss.backward()
    result.loss.backward()
    torch.testing.assert_close(
        model.body.embedding.tokens.weight.grad,
        other.bert.embeddings.word_embeddings.weight.grad,
        atol=1e-5,
        rtol=0,
    )


@torch.inference_mode()
def test_logits_are_those_of_bert_for_masked_words() -> None:
    model, other = pair("BertForMaskedLM", sentence_pair=False)
    words, pairs = model(TOKENS, LENGTHS)
    logits = other(input_ids=TOKENS, attention_mask=REAL).logits
    torch.testing.assert_close(words[REAL], logits[REAL], atol=1e-5, rtol=0)
    assert pairs is None
    assert model.sentence_pair is None


@pytest.mark.parametrize("chosen", [[], [0], [2, 6, 9]])
def test_logits_at_some_positions_are_those_of_all_positions(chosen: list[int]) -> None:
    model = ours(sentence_pair=True)
    asked = torch.tensor(chosen, dtype=torch.long)
    some, pairs = model(TOKENS, LENGTHS, segments=SEGMENTS, places=asked)
    every, same = model(TOKENS, LENGTHS, segments=SEGMENTS)
    torch.testing.assert_close(some, every.flatten(0, 1)[asked], atol=1e-6, rtol=0)
    assert torch.equal(pairs, same)
    if chosen:
        targets = torch.arange(len(chosen))
        encoder = list(model.body.encoder.parameters())
        of_some = torch.autograd.grad(F.cross_entropy(some, targets), encoder)
        kept = every.flatten(0, 1)[asked]
        of_every = torch.autograd.grad(F.cross_entropy(kept, targets), encoder)
        for one, other in zip(of_some, of_every, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@torch.inference_mode()
def test_a_batch_equals_its_rows_and_padding_changes_nothing() -> None:
    from regard.nn import Trace

    model = ours(sentence_pair=True).eval()
    words, pairs = model(TOKENS, LENGTHS, segments=SEGMENTS)
    wide = F.pad(TOKENS, (0, 3), value=7)
    padded, _ = model(wide, LENGTHS, segments=F.pad(SEGMENTS, (0, 3), value=1))
    torch.testing.assert_close(padded[:, :8][REAL], words[REAL])
    for row, length in enumerate(LENGTHS.tolist()):
        alone, pair_alone = model(TOKENS[row : row + 1, :length], segments=SEGMENTS[[row], :length])
        torch.testing.assert_close(alone[0], words[row, :length], atol=1e-5, rtol=0)
        torch.testing.assert_close(pair_alone[0], pairs[row], atol=1e-5, rtol=0)
    trace = Trace()
    traced, _ = model(TOKENS, LENGTHS, segments=SEGMENTS, trace=trace)
    torch.testing.assert_close(traced[REAL], words[REAL], atol=1e-5, rtol=0)
    assert "body.encoder.layers.1.self_attention" in trace.attention()
    assert "masked_words.output" in trace


def test_the_output_is_the_token_embedding() -> None:
    model = ours(sentence_pair=False)
    assert model.masked_words.output.weight is model.body.embedding.tokens.weight
    names = dict(model.named_parameters())
    assert not any(
        "sentence_pair" in name or "output.weight" in name
        for name in names
        if name.startswith("masked_words")
    )
