"""Our Transformer as a Hugging Face model with the same weights: the peer to compare with."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.data.tokenizer import END, PADDING, START
from regard.models import Transformer
from regard.nn import Block, MultiHeadAttention, sinusoids


def as_hugging_face(ours: Transformer, *, never: Sequence[int], longest: int) -> Any:
    """A Marian model for post-norm, or a Pegasus model, which is Marian with pre-norm.

    The Transformer must have one shared embedding, sinusoidal positions and ReLU. never: tokens
    that are not generated. longest: how many positions the model has.
    """
    from transformers import (
        MarianConfig,
        MarianMTModel,
        PegasusConfig,
        PegasusForConditionalGeneration,
    )

    layer = ours.encoder.layers[0]
    before = layer.self_attention_residual.place == "pre"
    kinds: tuple[Any, Any] = (
        (PegasusConfig, PegasusForConditionalGeneration)
        if before
        else (MarianConfig, MarianMTModel)
    )
    heads, inner = layer.self_attention.n_heads, layer.feed_forward.inner.out_features
    config = kinds[0](
        vocab_size=ours.output.weight.size(0),
        d_model=ours.d_model,
        encoder_layers=len(ours.encoder.layers),
        decoder_layers=len(ours.decoder.layers),
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=longest,
        pad_token_id=PADDING,
        bos_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=START,
    )
    theirs = kinds[1](config).eval()
    with torch.no_grad():
        theirs.model.shared.weight.copy_(ours.source_embedding.tokens.weight)
        theirs.final_logits_bias.zero_()
        theirs.final_logits_bias[:, list(never)] = -torch.inf
        for stack, other in (
            (ours.encoder, theirs.model.encoder),
            (ours.decoder, theirs.model.decoder),
        ):
            other.embed_positions.weight.copy_(sinusoids(longest, ours.d_model))
            if stack.final_norm is not None:
                _affine(stack.final_norm, other.layer_norm)
            for part, layer_of_theirs in zip(stack.layers, other.layers, strict=True):
                _layer(part, layer_of_theirs)
        theirs.tie_weights()
    return theirs


def _layer(ours: Block, theirs: Any) -> None:
    _attention(ours.self_attention, theirs.self_attn)
    _affine(ours.self_attention_residual.norm, theirs.self_attn_layer_norm)
    if ours.cross_attention is not None and ours.cross_attention_residual is not None:
        _attention(ours.cross_attention, theirs.encoder_attn)
        _affine(ours.cross_attention_residual.norm, theirs.encoder_attn_layer_norm)
    _affine(ours.feed_forward.inner, theirs.fc1)
    _affine(ours.feed_forward.outer, theirs.fc2)
    _affine(ours.feed_forward_residual.norm, theirs.final_layer_norm)


def _attention(ours: MultiHeadAttention, theirs: Any) -> None:
    blocks = zip(ours.projection.weight.chunk(3), ours.projection.bias.chunk(3), strict=True)
    for part, (weight, bias) in zip(
        (theirs.q_proj, theirs.k_proj, theirs.v_proj), blocks, strict=True
    ):
        part.weight.copy_(weight)
        part.bias.copy_(bias)
    _affine(ours.output, theirs.out_proj)


def _affine(ours: Any, theirs: Any) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)
