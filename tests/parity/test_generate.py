"""Beam search against Hugging Face's `generate`, on a Marian model with the same weights."""

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from regard.data.batches import pad
from regard.decoding import Rules, beam_search, greedy
from regard.models import Transformer
from regard.nn import MultiHeadAttention, sinusoids

VOCAB, WIDTH, LAYERS, HEADS, INNER, LONGEST = 13, 16, 2, 4, 32, 12
PADDING, START, END = 0, 1, 2
NEVER = [PADDING, START]
SOURCES = [[4, 5, 6, 7, END], [8, 9, END], [12, 4, 10, 10, 3, END], [5, END], [6, 6, 6, END]]


def copy_attention(ours: MultiHeadAttention, theirs) -> None:
    parts = (theirs.q_proj, theirs.k_proj, theirs.v_proj)
    for part, weight, bias in zip(
        parts, ours.projection.weight.chunk(3), ours.projection.bias.chunk(3), strict=True
    ):
        part.weight.copy_(weight)
        part.bias.copy_(bias)
    theirs.out_proj.weight.copy_(ours.output.weight)
    theirs.out_proj.bias.copy_(ours.output.bias)


def copy_affine(ours, theirs) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)


@pytest.fixture(scope="module")
def models() -> tuple[Transformer, MarianMTModel]:
    """The same weights in both: post-norm, relu, one shared embedding, positions as ours are."""
    torch.manual_seed(1)
    ours = Transformer(
        VOCAB,
        VOCAB,
        d_model=WIDTH,
        n_layers=LAYERS,
        n_heads=HEADS,
        d_ff=INNER,
        norm="post",
        tie_embeddings="all",
    ).eval()
    config = MarianConfig(
        vocab_size=VOCAB,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=64,
        pad_token_id=PADDING,
        bos_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=START,
    )
    theirs = MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in ours.parameters():  # large enough that outputs differ in length
            parameter.add_(0.25 * torch.randn_like(parameter))
        ours.source_embedding.tokens.weight[PADDING] = 0
        theirs.model.shared.weight.copy_(ours.source_embedding.tokens.weight)
        theirs.final_logits_bias.zero_()
        theirs.final_logits_bias[:, NEVER] = -torch.inf
        for stack, other in (
            (ours.encoder, theirs.model.encoder),
            (ours.decoder, theirs.model.decoder),
        ):
            other.embed_positions.weight.copy_(sinusoids(64, WIDTH))
            for mine, layer in zip(stack.layers, other.layers, strict=True):
                copy_attention(mine.self_attention, layer.self_attn)
                copy_affine(mine.feed_forward.inner, layer.fc1)
                copy_affine(mine.feed_forward.outer, layer.fc2)
                copy_affine(mine.feed_forward_residual.norm, layer.final_layer_norm)
                first = mine.self_residual if hasattr(mine, "self_residual") else None
                copy_affine((first or mine.attention_residual).norm, layer.self_attn_layer_norm)
                if first is not None:
                    copy_attention(mine.cross_attention, layer.encoder_attn)
                    copy_affine(mine.cross_residual.norm, layer.encoder_attn_layer_norm)
        theirs.tie_weights()
    return ours, theirs


def test_scores_are_equal(models) -> None:
    ours, theirs = models
    source, target = pad(SOURCES), pad([[START, 5, 6], [START, 4, 9], [START, 8, 8]] + [[1]] * 2)
    with torch.inference_mode():
        expected = theirs(
            input_ids=source, attention_mask=source != PADDING, decoder_input_ids=target
        ).logits
        torch.testing.assert_close(
            ours(source, target)[..., END:], expected[..., END:], atol=1e-5, rtol=1e-5
        )


def generated(theirs: MarianMTModel, **options) -> tuple[list[list[int]], list[float] | None]:
    source = pad(SOURCES)
    found = theirs.generate(
        input_ids=source,
        attention_mask=source != PADDING,
        max_new_tokens=LONGEST,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    rows = []
    for row in found.sequences[:, 1:].tolist():
        end = row.index(END) if END in row else len(row)
        rows.append(row[:end])
    scores = getattr(found, "sequences_scores", None)
    return rows, None if scores is None else scores.tolist()


def test_greedy_is_generate(models) -> None:
    ours, theirs = models
    found = greedy(ours, pad(SOURCES), start=START, end=END, max_new_tokens=LONGEST, never=NEVER)
    assert [one.tokens for one in found] == generated(theirs, num_beams=1)[0]


@pytest.mark.parametrize("beam", [2, 4, 5])
@pytest.mark.parametrize("ngram", [0, 2])
def test_beam_search_is_generate(models, beam: int, ngram: int) -> None:
    """The n_best and their scores; without a length penalty, of which the two have two formulas."""
    ours, theirs = models
    found = beam_search(
        ours,
        pad(SOURCES),
        start=START,
        end=END,
        max_new_tokens=LONGEST,
        beam=beam,
        alpha=0.0,
        n_best=beam,
        never=NEVER,
        rules=Rules(END, no_repeat_ngram=ngram) if ngram else None,
    )
    rows, scores = generated(
        theirs,
        num_beams=beam,
        num_return_sequences=beam,
        length_penalty=0.0,
        early_stopping=False,
        no_repeat_ngram_size=ngram,
    )
    assert [one.tokens for hypotheses in found for one in hypotheses] == rows
    assert [one.score for hypotheses in found for one in hypotheses] == pytest.approx(
        scores, abs=1e-4
    )
