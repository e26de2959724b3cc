"""To CTranslate2, a fast engine for Transformers: the same weights under its names."""

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from regard.data.tokenizer import Tokenizer
from regard.models import Transformer
from regard.nn import DecoderLayer, Embedding, EncoderLayer, LayerNorm, MultiHeadAttention
from regard.nn.positions import LearnedPositions, sinusoids
from regard.system.errors import UserError
from regard.system.optional import needed


def export(
    model: nn.Module, tokenizers: tuple[Tokenizer, ...], folder: Path, *, longest: int = 1024
) -> None:
    """Write a Transformer and its vocabularies as a CTranslate2 model directory.

    longest: positions to write down where the model computes them.

    Its translations are ours: what it is given and gives back are tokens, `</s>` it adds itself.
    """
    specs = needed("ctranslate2.specs", extra="export", what="--to ctranslate2")
    if not isinstance(model, Transformer):
        raise UserError("CTranslate2 runs Transformers; this run's model is recurrent.")
    first = model.encoder.layers[0]
    assert isinstance(first, EncoderLayer)
    heads = first.self_attention.n_heads
    options = {
        "pre_norm": first.attention_residual.place == "pre",
        "no_final_norm": model.encoder.final_norm is None,
        "activation": specs.common_spec.Activation[first.feed_forward.activation.upper()],
    }
    if model.source_embedding.positions is None:  # rotary: pairs are half a head apart
        width = first.self_attention.output.weight.size(0)
        options |= {"rotary_dim": width // heads, "rotary_interleave": False}
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(len(model.encoder.layers), heads, **options),
        specs.TransformerDecoderSpec(len(model.decoder.layers), heads, **options),
    )
    for ours, theirs in ((model.encoder, spec.encoder), (model.decoder, spec.decoder)):
        if ours.final_norm is not None:
            _norm(theirs.layer_norm, ours.final_norm)
        for layer, other in zip(ours.layers, theirs.layer, strict=True):
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            _layer(other, layer)
    _embedding(spec.encoder.embeddings[0], spec.encoder, model.source_embedding, longest)
    _embedding(spec.decoder.embeddings, spec.decoder, model.target_embedding, longest)
    spec.decoder.projection.weight = _array(model.output.weight)
    spec.register_source_vocabulary(tokenizers[0].tokens(range(len(tokenizers[0]))))
    spec.register_target_vocabulary(tokenizers[1].tokens(range(len(tokenizers[1]))))
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = first.attention_residual.norm.epsilon
    spec.validate()
    folder.mkdir(parents=True)
    spec.save(str(folder))
    for name, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        (folder / f"{name}_tokenizer.json").write_text(tokenizer.json, encoding="utf-8")


def _layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    residual = layer.attention_residual if isinstance(layer, EncoderLayer) else layer.self_residual
    _attention(spec.self_attention, layer.self_attention, blocks=(3,))
    _norm(spec.self_attention.layer_norm, residual.norm)
    if isinstance(layer, DecoderLayer):
        _attention(spec.attention, layer.cross_attention, blocks=(1, 2))
        _norm(spec.attention.layer_norm, layer.cross_residual.norm)
    _linear(spec.ffn.linear_0, layer.feed_forward.inner.weight, layer.feed_forward.inner.bias)
    _linear(spec.ffn.linear_1, layer.feed_forward.outer.weight, layer.feed_forward.outer.bias)
    _norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _attention(spec: Any, part: MultiHeadAttention, *, blocks: tuple[int, ...]) -> None:
    """Wq, Wk, Wv are one matrix to self-attention, and Wq and (Wk, Wv) two to cross-attention."""
    width = part.output.weight.size(0)
    bias: Tensor | None = part.projection.bias
    rows = [count * width for count in blocks]
    weights = part.projection.weight.split(rows)
    biases = [None] * len(rows) if bias is None else bias.split(rows)
    for place, (weight, one) in enumerate(zip(weights, biases, strict=True)):
        _linear(spec.linear[place], weight, one)
    _linear(spec.linear[len(rows)], part.output.weight, part.output.bias)


def _linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _array(weight)
    if bias is not None:
        spec.bias = _array(bias)


def _norm(spec: Any, norm: LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _embedding(spec: Any, stack: Any, embedding: Embedding, longest: int) -> None:
    """Tokens are scaled by √D there too; positions that are added are given as a table."""
    spec.weight = _array(embedding.tokens.weight)
    places = embedding.positions
    if places is None:
        vars(stack).pop("position_encodings", None)  # an encoder's specification has it in any case
        return
    stack.position_encodings.encodings = (
        _array(places.weight)
        if isinstance(places, LearnedPositions)
        else sinusoids(longest, embedding.tokens.weight.size(1)).numpy()
    )


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().numpy()
