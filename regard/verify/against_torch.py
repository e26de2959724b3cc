"""Attention, blocks and whole Transformers against torch.nn: outputs and gradients."""

import warnings
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor, nn

from regard.models import Transformer
from regard.nn import (
    Block,
    CrossAttention,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    Residual,
    SelfAttention,
    causal_mask,
)
from regard.nn.residual import NormPlace
from regard.verify.check import Check, largest_with_gradients
from regard.verify.functions import function_checks
from regard.verify.same_weights import (
    D_MODEL,
    LAYERS,
    attention_weights,
    block_weights,
    copied,
    sequences,
    transformer_weights,
)

HEADS, D_FF = 4, 64


def compare_self_attention(*, fast: bool) -> float:
    """Self-attention under a padding mask and a causal mask."""
    source, _, real, _ = sequences()
    ours = SelfAttention(D_MODEL, HEADS, fast=fast)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    causal = causal_mask(source.size(1))
    return largest_with_gradients(
        lambda x: ours(x[0], mask=real[:, None, None, :] & causal),
        lambda x: theirs(
            x[0], x[0], x[0], key_padding_mask=~real, attn_mask=~causal, need_weights=False
        )[0],
        [source],
        copied(attention_weights(ours, theirs)),
    )


def compare_cross_attention(*, fast: bool) -> float:
    """Cross-attention under a padding mask."""
    source, target, real, _ = sequences()
    ours = CrossAttention(D_MODEL, HEADS, fast=fast)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    return largest_with_gradients(
        lambda x: ours(x[0], x[1], mask=real[:, None, None, :]),
        lambda x: theirs(x[0], x[1], x[1], key_padding_mask=~real, need_weights=False)[0],
        [target, source],
        copied(attention_weights(ours, theirs)),
    )


def compare_general_attention(*, fast: bool) -> float:
    """Attention with three different inputs as query, key and value."""
    source, target, _, _ = sequences()
    ours = MultiHeadAttention(D_MODEL, HEADS, fast=fast)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    return largest_with_gradients(
        lambda x: ours(x[0], x[1], x[2]),
        lambda x: theirs(x[0], x[1], x[2], need_weights=False)[0],
        [target, source, source.flip(1)],
        copied(attention_weights(ours, theirs)),
    )


def block(norm: NormPlace, *, cross_attention: bool, fast: bool) -> Block:
    """A block without dropout."""
    return Block(
        self_attention=SelfAttention(D_MODEL, HEADS, fast=fast),
        cross_attention=CrossAttention(D_MODEL, HEADS, fast=fast) if cross_attention else None,
        feed_forward=FeedForward(D_MODEL, D_FF, fast=fast),
        residual=lambda: Residual(LayerNorm(D_MODEL, fast=fast), place=norm, dropout=0.0),
    )


def compare_encoder_layer(norm: NormPlace, *, fast: bool) -> float:
    source, _, real, _ = sequences()
    ours = block(norm, cross_attention=False, fast=fast)
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, 0.0, batch_first=True, norm_first=norm == "pre"
    )
    return largest_with_gradients(
        lambda x: ours(x[0], mask=real[:, None, None, :]),
        lambda x: theirs(x[0], src_key_padding_mask=~real),
        [source],
        copied(block_weights(ours, theirs)),
        counted=real,
    )


def compare_decoder_layer(norm: NormPlace, *, fast: bool) -> float:
    source, target, real_source, real_target = sequences()
    ours = block(norm, cross_attention=True, fast=fast)
    theirs = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, 0.0, batch_first=True, norm_first=norm == "pre"
    )
    causal = causal_mask(target.size(1))
    return largest_with_gradients(
        lambda x: ours(
            x[0],
            x[1],
            mask=real_target[:, None, None, :],
            is_causal=True,
            memory_mask=real_source[:, None, None, :],
        ),
        lambda x: theirs(
            x[0],
            x[1],
            tgt_mask=~causal,
            tgt_key_padding_mask=~real_target,
            memory_key_padding_mask=~real_source,
        ),
        [target, source],
        copied(block_weights(ours, theirs)),
        counted=real_target,
    )


def compare_transformer(norm: NormPlace, *, fast: bool) -> float:
    """Whole models on padded token ids; torch's has no embeddings and is given ours."""
    source = torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0], [4, 2, 0, 0, 0]])
    target = torch.tensor([[1, 5, 6, 0], [1, 4, 4, 9], [1, 0, 0, 0]])
    ours = Transformer(
        10,
        10,
        d_model=D_MODEL,
        n_layers=LAYERS,
        n_heads=HEADS,
        d_ff=D_FF,
        dropout=0.0,
        norm=norm,
        final_norm=True,
        fast=fast,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an inference path that is not used here
        theirs = nn.Transformer(
            D_MODEL, HEADS, LAYERS, LAYERS, D_FF, 0.0, batch_first=True, norm_first=norm == "pre"
        )

    def by_torch(x: list[Tensor]) -> Tensor:
        hidden = theirs(
            ours.source_embedding(x[0]),
            ours.target_embedding(x[1]),
            tgt_mask=~causal_mask(target.size(1)),
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return ours.output(hidden)

    return largest_with_gradients(
        lambda x: ours(x[0], x[1], source_lengths=(source != 0).sum(dim=1)),
        by_torch,
        [source, target],
        copied(transformer_weights(ours, theirs)),
        counted=target != 0,
    )


def torch_checks() -> Iterable[Check]:
    """Functions, attention, blocks and whole models, by both paths, pre- and post-norm."""
    yield from function_checks()
    for fast in (False, True):
        path = "fast" if fast else "reference"
        yield Check(
            f"SelfAttention ({path}) = torch.nn.MultiheadAttention, and gradients",
            partial(compare_self_attention, fast=fast),
        )
        yield Check(
            f"CrossAttention ({path}) = torch.nn.MultiheadAttention, and gradients",
            partial(compare_cross_attention, fast=fast),
        )
        yield Check(
            f"MultiHeadAttention ({path}) = torch.nn.MultiheadAttention, and gradients",
            partial(compare_general_attention, fast=fast),
        )
        norms: tuple[NormPlace, ...] = ("pre", "post")
        for norm in norms:
            variant = f"({norm}-norm, {path})"
            yield Check(
                f"Block {variant} = torch.nn.TransformerEncoderLayer",
                partial(compare_encoder_layer, norm, fast=fast),
            )
            yield Check(
                f"Block with cross-attention {variant} = torch.nn.TransformerDecoderLayer",
                partial(compare_decoder_layer, norm, fast=fast),
            )
            yield Check(
                f"Transformer {variant} = torch.nn.Transformer",
                partial(compare_transformer, norm, fast=fast),
            )
