"""Every part against torch.nn's, with the same weights: outputs and gradients."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import Transformer
from regard.nn import (
    Block,
    CrossAttention,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    Norm,
    Residual,
    RMSNorm,
    SelfAttention,
    activations,
    attend,
    causal_mask,
    log_softmax,
    softmax,
)
from regard.nn.residual import NormPlace
from regard.training.loss import cross_entropy, cross_entropy_reference
from regard.training.r_drop import r_drop, r_drop_reference
from regard.verify.check import Check, largest_with_gradients

Weights = list[tuple[Tensor, Tensor]]
"""Weights of ours beside those of torch's that they must equal."""

Function = Callable[[Tensor], Tensor]

D_MODEL, HEADS, D_FF, LAYERS = 32, 4, 64, 2


def attention_weights(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Weights:
    """The stacked projection has torch's layout."""
    return [
        (ours.projection.weight, theirs.in_proj_weight),
        (ours.projection.bias, theirs.in_proj_bias),
        (ours.output.weight, theirs.out_proj.weight),
        (ours.output.bias, theirs.out_proj.bias),
    ]


def affine_weights(
    ours: nn.Linear | Norm | None, theirs: nn.Linear | nn.LayerNorm | nn.Module | None
) -> Weights:
    """A linear layer or a norm."""
    assert isinstance(ours, nn.Linear | LayerNorm)
    assert isinstance(theirs, nn.Linear | nn.LayerNorm)
    assert ours.bias is not None
    return [(ours.weight, theirs.weight), (ours.bias, theirs.bias)]


def block_weights(ours: Block, theirs: nn.Module) -> Weights:
    """A block, and torch's encoder layer or decoder layer."""
    torch_layer: Any = theirs
    cross = ours.cross_attention is not None
    weights = [
        *attention_weights(ours.self_attention, torch_layer.self_attn),
        *affine_weights(ours.feed_forward.inner, torch_layer.linear1),
        *affine_weights(ours.feed_forward.outer, torch_layer.linear2),
        *affine_weights(ours.self_attention_residual.norm, torch_layer.norm1),
        *affine_weights(
            ours.feed_forward_residual.norm, torch_layer.norm3 if cross else torch_layer.norm2
        ),
    ]
    if ours.cross_attention is not None and ours.cross_attention_residual is not None:
        weights += attention_weights(ours.cross_attention, torch_layer.multihead_attn)
        weights += affine_weights(ours.cross_attention_residual.norm, torch_layer.norm2)
    return weights


def transformer_weights(ours: Transformer, theirs: nn.Transformer) -> Weights:
    """Both stacks and their final norms; torch's has no embeddings."""
    weights: Weights = []
    stacks = ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder))
    for stack, torch_stack in stacks:
        for layer, torch_layer in zip(stack.layers, torch_stack.layers, strict=True):
            weights += block_weights(layer, torch_layer)
        weights += affine_weights(stack.final_norm, torch_stack.norm)
    return weights


def copied(weights: Weights) -> Weights:
    """Give both sides the same random weights: biases and norms too, which start out trivial."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for ours, theirs in weights:
            noise = torch.randn(theirs.shape, generator=generator)
            theirs.copy_(theirs + 0.1 * noise)
            ours.copy_(theirs)
    return weights


def sequences(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source and target vectors (B S D, B T D), and which positions of them are real (B S, B T)."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randn(3, 7, D_MODEL, generator=generator)
    target = torch.randn(3, 5, D_MODEL, generator=generator)
    real_source = torch.arange(7)[None, :] < torch.tensor([7, 4, 2])[:, None]
    real_target = torch.arange(5)[None, :] < torch.tensor([3, 5, 1])[:, None]
    return source, target, real_source, real_target


def compare_self_attention(*, fast: bool) -> float:
    """With padding and causal masks together."""
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
    """With a padding mask on the memory."""
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
    """Query, key and value all different."""
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
    """Whole models on padded token ids; torch's has no embeddings and borrows ours."""
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
        warnings.simplefilter("ignore")  # on an inference path that it will not take
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


def compare_functions(ours: Function, theirs: Function, x: Tensor) -> float:
    return largest_with_gradients(
        lambda inputs: ours(inputs[0]), lambda inputs: theirs(inputs[0]), [x]
    )


def _summed(loss: Callable[..., Tensor], logits: Tensor, *, smoothing: float) -> Tensor:
    """A loss over fixed targets, of which 0 is padding and does not count."""
    return loss(logits, torch.tensor([3, 0, 8, 1, 5]), smoothing=smoothing)[None]


def _agreed(loss: Callable[..., Tensor], logits: Tensor) -> Tensor:
    """A loss of two forward passes, over fixed targets."""
    return loss(logits, torch.tensor([[3, 0, 8], [1, 5, 0]]), alpha=5.0, smoothing=0.1)[None]


def _functions() -> Iterator[Check]:
    """The written-out functions against torch's."""
    x = torch.randn(5, 9, generator=torch.Generator().manual_seed(1)) * 4
    norm, torch_norm = LayerNorm(9, fast=False), nn.LayerNorm(9)
    pairs: dict[str, tuple[Function, Function]] = {
        "softmax": (softmax, lambda x: x.softmax(-1)),
        "log-softmax": (log_softmax, lambda x: x.log_softmax(-1)),
        "ReLU": (activations.relu, F.relu),
        "GELU": (activations.gelu, F.gelu),
        "GELU (tanh)": (activations.gelu_tanh, partial(F.gelu, approximate="tanh")),
        "SiLU": (activations.silu, F.silu),
        "squared ReLU": (activations.squared_relu, lambda x: F.relu(x).square()),
    }
    for smoothing in (0.0, 0.1):
        pairs[f"cross-entropy (smoothing {smoothing})"] = (
            partial(_summed, cross_entropy_reference, smoothing=smoothing),
            partial(_summed, cross_entropy, smoothing=smoothing),
        )
    for name, (ours, theirs) in pairs.items():
        yield Check(f"{name} = torch's, and gradients", partial(compare_functions, ours, theirs, x))
    yield Check(
        "LayerNorm = torch.nn.LayerNorm, and gradients",
        lambda: largest_with_gradients(
            lambda inputs: norm(inputs[0]),
            lambda inputs: torch_norm(inputs[0]),
            [x],
            copied(affine_weights(norm, torch_norm)),
        ),
    )
    rms, torch_rms = RMSNorm(9, fast=False), nn.RMSNorm(9, eps=1e-5)
    yield Check(
        "RMSNorm = torch.nn.RMSNorm, and gradients",
        lambda: largest_with_gradients(
            lambda inputs: rms(inputs[0]),
            lambda inputs: torch_rms(inputs[0]),
            [x],
            copied([(rms.weight, torch_rms.weight)]),
        ),
    )
    twice = torch.randn(4, 3, 9, generator=torch.Generator().manual_seed(3)) * 4
    yield Check(
        "R-Drop, its gradient written out = torch's autograd",
        partial(
            compare_functions, partial(_agreed, r_drop), partial(_agreed, r_drop_reference), twice
        ),
    )
    q, k, v = torch.randn(3, 2, 4, 6, 8, generator=torch.Generator().manual_seed(2))
    mask = causal_mask(6)
    yield Check(
        "softmax(QKᵀ/√K)V = torch's fused attention, and gradients",
        lambda: largest_with_gradients(
            lambda x: attend(x[0], x[1], x[2], mask)[0],
            lambda x: F.scaled_dot_product_attention(x[0], x[1], x[2], attn_mask=mask),
            [q, k, v],
        ),
    )


def torch_checks() -> Iterable[Check]:
    """Functions, attention, layers and whole models, by both paths, pre- and post-norm."""
    yield from _functions()
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
            which = f"({norm}-norm, {path})"
            yield Check(
                f"Block {which} = torch.nn.TransformerEncoderLayer",
                partial(compare_encoder_layer, norm, fast=fast),
            )
            yield Check(
                f"Block with cross-attention {which} = torch.nn.TransformerDecoderLayer",
                partial(compare_decoder_layer, norm, fast=fast),
            )
            yield Check(
                f"Transformer {which} = torch.nn.Transformer",
                partial(compare_transformer, norm, fast=fast),
            )
