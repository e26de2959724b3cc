"""Pairs of our weights and torch.nn's, set to the same values, and inputs to compare both on."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.models import Transformer
from regard.nn import Block, LayerNorm, MultiHeadAttention, Norm

Weights = list[tuple[Tensor, Tensor]]
"""Our weights, each with the weight of torch's that it must be equal to."""

D_MODEL, LAYERS = 32, 2


def attention_weights(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Weights:
    """The weights of attention; the stacked projection has torch's layout."""
    return [
        (ours.projection.weight, theirs.in_proj_weight),
        (ours.projection.bias, theirs.in_proj_bias),
        (ours.output.weight, theirs.out_proj.weight),
        (ours.output.bias, theirs.out_proj.bias),
    ]


def affine_weights(
    ours: nn.Linear | Norm | None, theirs: nn.Linear | nn.LayerNorm | nn.Module | None
) -> Weights:
    """The weights of a linear layer or of a norm."""
    assert isinstance(ours, nn.Linear | LayerNorm)
    assert isinstance(theirs, nn.Linear | nn.LayerNorm)
    assert ours.bias is not None
    return [(ours.weight, theirs.weight), (ours.bias, theirs.bias)]


def block_weights(ours: Block, theirs: nn.Module) -> Weights:
    """The weights of a block, and of torch's encoder layer or decoder layer."""
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
    """The weights of both stacks and of their final norms; torch's has no embeddings."""
    weights: Weights = []
    stacks = ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder))
    for stack, torch_stack in stacks:
        for layer, torch_layer in zip(stack.layers, torch_stack.layers, strict=True):
            weights += block_weights(layer, torch_layer)
        weights += affine_weights(stack.final_norm, torch_stack.norm)
    return weights


def copied(weights: Weights) -> Weights:
    """Set both sides to the same random values, including biases and norms, which are 0 or 1."""
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
