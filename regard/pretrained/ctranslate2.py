"""Export to CTranslate2, a fast engine for Transformers: the same weights under its names."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.tokenizer import Tokenizer
from regard.models import Transformer
from regard.nn import Block, Embedding, LayerNorm, MultiHeadAttention, Norm
from regard.nn.positions import LearnedPositions, sinusoids
from regard.system.errors import UserError
from regard.system.optional import needed

ACTIVATIONS = ("relu", "gelu")
"""The activations that have the same name and formula in CTranslate2."""


def export(
    model: nn.Module, tokenizers: tuple[Tokenizer, ...], folder: Path, *, longest: int = 1024
) -> None:
    """Write a Transformer and its vocabularies as a CTranslate2 model directory.

    longest: how many positions to store where the model computes them.

    It gives the same translations. Its inputs and outputs are tokens; it adds the end itself.
    """
    specs = needed("ctranslate2.specs", extra="export", what="--to ctranslate2")
    if not isinstance(model, Transformer):
        raise UserError("CTranslate2 runs Transformers; this run's model is recurrent.")
    first = model.encoder.layers[0]
    _refuse_unsupported(model.decoder.layers[0], model.source_embedding)
    heads, rotary = first.self_attention.n_heads, first.self_attention.rotary
    options = {
        "pre_norm": first.self_attention_residual.place == "pre",
        "no_final_norm": model.encoder.final_norm is None,
        "activation": specs.common_spec.Activation[first.feed_forward.activation.upper()],
    }
    if rotary is not None:
        options |= {
            "rotary_dim": first.self_attention.d_head,
            "rotary_interleave": rotary.pairing == "interleaved",
        }
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(len(model.encoder.layers), heads, **options),
        specs.TransformerDecoderSpec(len(model.decoder.layers), heads, **options),
    )
    for ours, theirs in ((model.encoder, spec.encoder), (model.decoder, spec.decoder)):
        if ours.final_norm is not None:
            _norm(theirs.layer_norm, ours.final_norm)
        for layer, other in zip(ours.layers, theirs.layer, strict=True):
            _layer(other, layer)
    _embedding(spec.encoder.embeddings[0], spec.encoder, model.source_embedding, longest)
    _embedding(spec.decoder.embeddings, spec.decoder, model.target_embedding, longest)
    spec.decoder.projection.weight = _array(model.output.weight)
    spec.register_source_vocabulary(tokenizers[0].tokens(range(len(tokenizers[0]))))
    spec.register_target_vocabulary(tokenizers[1].tokens(range(len(tokenizers[1]))))
    _special_tokens(spec.config, tokenizers[1])
    spec.config.layer_norm_epsilon = first.self_attention_residual.norm.epsilon
    spec.validate()
    folder.mkdir(parents=True)
    spec.save(str(folder))
    for name, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        (folder / f"{name}_tokenizer.json").write_text(tokenizer.library_json, encoding="utf-8")


def _refuse_unsupported(block: Block, embedding: Embedding) -> None:
    """Refuse a model with parts that this export does not support."""
    attention, feed_forward = block.self_attention, block.feed_forward
    width = attention.output.out_features
    unsupported = {
        "model.n_kv_heads": attention.n_kv_heads != attention.n_heads,
        "model.d_head": attention.d_head * attention.n_heads != width,
        "model.norm_kind=rms": not isinstance(block.self_attention_residual.norm, LayerNorm),
        "model.gated": feed_forward.gate is not None,
        f"model.activation={feed_forward.activation}": feed_forward.activation not in ACTIVATIONS,
        "model.positions=none": embedding.positions is None and attention.rotary is None,
        "model.rotary_base other than 10000": attention.rotary is not None
        and attention.rotary.base != 10_000,
        "model.qk_norm": attention.query_norm is not None,
        "model.window": attention.window is not None,
        "model.scaled_embedding=false": embedding.tokens.scale == 1.0,
    }
    reasons = [name for name, present in unsupported.items() if present]
    if reasons:
        raise UserError(
            f"--to ctranslate2 does not support {', '.join(reasons)}, which this model has. "
            f"Use --to onnx, or train without it."
        )


def _special_tokens(config: Any, target: Tokenizer) -> None:
    """What begins and ends a text, by the names that these tokens have in the vocabulary."""
    special = target.special
    unknown = special.end if special.unknown is None else special.unknown
    config.bos_token, config.eos_token, config.unk_token = target.tokens(
        [special.first, special.end, unknown]
    )
    config.decoder_start_token = config.bos_token
    config.add_source_eos = True


def _layer(spec: Any, layer: Block) -> None:
    _attention(spec.self_attention, layer.self_attention, maps=(3,))
    _norm(spec.self_attention.layer_norm, layer.self_attention_residual.norm)
    if layer.cross_attention is not None and layer.cross_attention_residual is not None:
        _attention(spec.attention, layer.cross_attention, maps=(1, 2))
        _norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    _linear(spec.ffn.linear_0, layer.feed_forward.inner.weight, layer.feed_forward.inner.bias)
    _linear(spec.ffn.linear_1, layer.feed_forward.outer.weight, layer.feed_forward.outer.bias)
    _norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _attention(spec: Any, part: MultiHeadAttention, *, maps: tuple[int, ...]) -> None:
    """Self-attention has one matrix (Wq, Wk, Wv), cross-attention two: Wq, and (Wk, Wv)."""
    width = part.output.weight.size(0)
    bias: Tensor | None = part.projection.bias
    rows = [count * width for count in maps]
    weights = part.projection.weight.split(rows)
    biases = [None] * len(rows) if bias is None else bias.split(rows)
    for number, (weight, part_bias) in enumerate(zip(weights, biases, strict=True)):
        _linear(spec.linear[number], weight, part_bias)
    _linear(spec.linear[len(rows)], part.output.weight, part.output.bias)


def _linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _array(weight)
    if bias is not None:
        spec.bias = _array(bias)


def _norm(spec: Any, norm: Norm) -> None:
    """A layer norm; CTranslate2 needs a bias, of zeros if there is none."""
    assert isinstance(norm, LayerNorm)
    bias = torch.zeros_like(norm.weight) if norm.bias is None else norm.bias
    spec.gamma, spec.beta = _array(norm.weight), _array(bias)


def _embedding(spec: Any, stack: Any, embedding: Embedding, longest: int) -> None:
    """CTranslate2 scales tokens by √D too; positions that are added are stored as a table."""
    spec.weight = _array(embedding.tokens.weight)
    positions = embedding.positions
    if positions is None:
        vars(stack).pop("position_encodings", None)  # an encoder's specification always has it
        return
    stack.position_encodings.encodings = (
        _array(positions.weight)
        if isinstance(positions, LearnedPositions)
        else sinusoids(longest, embedding.tokens.weight.size(1)).numpy()
    )


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().numpy()
