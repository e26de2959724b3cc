"""Where every weight of ours stands in the files of other libraries: one table per family.

A table is read in both directions: from their names to ours on import, back on export. `{n}` is the
number of a layer.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.system.errors import UserError

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Place:
    """The weights of theirs that one of ours is made of."""

    names: tuple[str, ...]
    """Several are stacked by rows: ours has queries, keys and values in one matrix."""
    transposed: bool = False
    """They have input features by output features, as in GPT-2's Conv1D."""

    def at(self, layer: str) -> "Place":
        """The same of one layer."""
        return Place(tuple(name.replace("{n}", layer) for name in self.names), self.transposed)


Table = dict[str, Place]
"""Our name -> where it stands in theirs."""


def _of(*names: str) -> Place:
    return Place(names)


def _turned(*names: str) -> Place:
    return Place(names, transposed=True)


BLOCK = "decoder.layers.{n}."

GPT2: Table = {
    "embedding.tokens.weight": _of("transformer.wte.weight"),
    "embedding.positions.weight": _of("transformer.wpe.weight"),
    BLOCK + "self_attention.projection.weight": _turned("transformer.h.{n}.attn.c_attn.weight"),
    BLOCK + "self_attention.projection.bias": _of("transformer.h.{n}.attn.c_attn.bias"),
    BLOCK + "self_attention.output.weight": _turned("transformer.h.{n}.attn.c_proj.weight"),
    BLOCK + "self_attention.output.bias": _of("transformer.h.{n}.attn.c_proj.bias"),
    BLOCK + "feed_forward.inner.weight": _turned("transformer.h.{n}.mlp.c_fc.weight"),
    BLOCK + "feed_forward.inner.bias": _of("transformer.h.{n}.mlp.c_fc.bias"),
    BLOCK + "feed_forward.outer.weight": _turned("transformer.h.{n}.mlp.c_proj.weight"),
    BLOCK + "feed_forward.outer.bias": _of("transformer.h.{n}.mlp.c_proj.bias"),
    BLOCK + "self_attention_residual.norm.weight": _of("transformer.h.{n}.ln_1.weight"),
    BLOCK + "self_attention_residual.norm.bias": _of("transformer.h.{n}.ln_1.bias"),
    BLOCK + "feed_forward_residual.norm.weight": _of("transformer.h.{n}.ln_2.weight"),
    BLOCK + "feed_forward_residual.norm.bias": _of("transformer.h.{n}.ln_2.bias"),
    "decoder.final_norm.weight": _of("transformer.ln_f.weight"),
    "decoder.final_norm.bias": _of("transformer.ln_f.bias"),
    "output.weight": _of("lm_head.weight"),
}
"""GPT-2 in a Hugging Face folder."""


def _attention(layer: str, kind: str) -> tuple[str, ...]:
    return tuple(f"model.layers.{layer}.self_attn.{part}_proj.{kind}" for part in "qkv")


LLAMA: Table = {
    "embedding.tokens.weight": _of("model.embed_tokens.weight"),
    BLOCK + "self_attention.projection.weight": _of(*_attention("{n}", "weight")),
    BLOCK + "self_attention.projection.bias": _of(*_attention("{n}", "bias")),
    BLOCK + "self_attention.output.weight": _of("model.layers.{n}.self_attn.o_proj.weight"),
    BLOCK + "self_attention.output.bias": _of("model.layers.{n}.self_attn.o_proj.bias"),
    BLOCK + "self_attention.query_norm.weight": _of("model.layers.{n}.self_attn.q_norm.weight"),
    BLOCK + "self_attention.key_norm.weight": _of("model.layers.{n}.self_attn.k_norm.weight"),
    BLOCK + "feed_forward.inner.weight": _of("model.layers.{n}.mlp.up_proj.weight"),
    BLOCK + "feed_forward.inner.bias": _of("model.layers.{n}.mlp.up_proj.bias"),
    BLOCK + "feed_forward.gate.weight": _of("model.layers.{n}.mlp.gate_proj.weight"),
    BLOCK + "feed_forward.gate.bias": _of("model.layers.{n}.mlp.gate_proj.bias"),
    BLOCK + "feed_forward.outer.weight": _of("model.layers.{n}.mlp.down_proj.weight"),
    BLOCK + "feed_forward.outer.bias": _of("model.layers.{n}.mlp.down_proj.bias"),
    BLOCK + "self_attention_residual.norm.weight": _of("model.layers.{n}.input_layernorm.weight"),
    BLOCK + "feed_forward_residual.norm.weight": _of(
        "model.layers.{n}.post_attention_layernorm.weight"
    ),
    "decoder.final_norm.weight": _of("model.norm.weight"),
    "output.weight": _of("lm_head.weight"),
}
"""Llama, Mistral and Qwen in a Hugging Face folder."""

BERT_BLOCK = "body.encoder.layers.{n}."


def _bert(part: str, ours: str) -> Table:
    """The weight and bias of one of theirs, under the name of ours."""
    return {f"{ours}.{kind}": _of(f"{part}.{kind}") for kind in ("weight", "bias")}


def _bert_layer(part: str, ours: str) -> Table:
    return _bert("bert.encoder.layer.{n}." + part, BERT_BLOCK + ours)


def _bert_attention(kind: str) -> Place:
    layer = "bert.encoder.layer.{n}.attention.self."
    return _of(*(f"{layer}{part}.{kind}" for part in ("query", "key", "value")))


BERT: Table = {
    "body.embedding.tokens.weight": _of("bert.embeddings.word_embeddings.weight"),
    "body.embedding.positions.weight": _of("bert.embeddings.position_embeddings.weight"),
    "body.embedding.segments.weight": _of("bert.embeddings.token_type_embeddings.weight"),
    **_bert("bert.embeddings.LayerNorm", "body.embedding.norm"),
    BERT_BLOCK + "self_attention.projection.weight": _bert_attention("weight"),
    BERT_BLOCK + "self_attention.projection.bias": _bert_attention("bias"),
    **_bert_layer("attention.output.dense", "self_attention.output"),
    **_bert_layer("attention.output.LayerNorm", "self_attention_residual.norm"),
    **_bert_layer("intermediate.dense", "feed_forward.inner"),
    **_bert_layer("output.dense", "feed_forward.outer"),
    **_bert_layer("output.LayerNorm", "feed_forward_residual.norm"),
    **_bert("bert.pooler.dense", "body.pooler.linear"),
}
"""BERT in a Hugging Face folder, as the body of a model."""

BERT_WORDS: Table = {
    **BERT,
    **_bert("cls.predictions.transform.dense", "masked_words.dense"),
    **_bert("cls.predictions.transform.LayerNorm", "masked_words.norm"),
    "masked_words.output.bias": _of("cls.predictions.bias"),
    **_bert("cls.seq_relationship", "sentence_pair"),
}
"""BertForPreTraining; BertForMaskedLM lacks the last."""

BERT_CLASSES: Table = BERT | _bert("classifier", "output")
"""BertForSequenceClassification and BertForTokenClassification."""

BERT_SPAN: Table = BERT | _bert("qa_outputs", "output")
"""BertForQuestionAnswering."""

GGUF_LLAMA: Table = {
    "embedding.tokens.weight": _of("token_embd.weight"),
    BLOCK + "self_attention.projection.weight": _of(
        "blk.{n}.attn_q.weight", "blk.{n}.attn_k.weight", "blk.{n}.attn_v.weight"
    ),
    BLOCK + "self_attention.projection.bias": _of(
        "blk.{n}.attn_q.bias", "blk.{n}.attn_k.bias", "blk.{n}.attn_v.bias"
    ),
    BLOCK + "self_attention.output.weight": _of("blk.{n}.attn_output.weight"),
    BLOCK + "self_attention.output.bias": _of("blk.{n}.attn_output.bias"),
    BLOCK + "self_attention.query_norm.weight": _of("blk.{n}.attn_q_norm.weight"),
    BLOCK + "self_attention.key_norm.weight": _of("blk.{n}.attn_k_norm.weight"),
    BLOCK + "feed_forward.inner.weight": _of("blk.{n}.ffn_up.weight"),
    BLOCK + "feed_forward.inner.bias": _of("blk.{n}.ffn_up.bias"),
    BLOCK + "feed_forward.gate.weight": _of("blk.{n}.ffn_gate.weight"),
    BLOCK + "feed_forward.gate.bias": _of("blk.{n}.ffn_gate.bias"),
    BLOCK + "feed_forward.outer.weight": _of("blk.{n}.ffn_down.weight"),
    BLOCK + "feed_forward.outer.bias": _of("blk.{n}.ffn_down.bias"),
    BLOCK + "self_attention_residual.norm.weight": _of("blk.{n}.attn_norm.weight"),
    BLOCK + "feed_forward_residual.norm.weight": _of("blk.{n}.ffn_norm.weight"),
    "decoder.final_norm.weight": _of("output_norm.weight"),
    "output.weight": _of("output.weight"),
}
"""Llama and Qwen in a GGUF file."""

GGUF_GPT2: Table = {
    **{name: place for name, place in GGUF_LLAMA.items() if "gate" not in name},
    "embedding.positions.weight": _of("position_embd.weight"),
    BLOCK + "self_attention.projection.weight": _of("blk.{n}.attn_qkv.weight"),
    BLOCK + "self_attention.projection.bias": _of("blk.{n}.attn_qkv.bias"),
    BLOCK + "self_attention_residual.norm.bias": _of("blk.{n}.attn_norm.bias"),
    BLOCK + "feed_forward_residual.norm.bias": _of("blk.{n}.ffn_norm.bias"),
    "decoder.final_norm.bias": _of("output_norm.bias"),
}
"""GPT-2 in a GGUF file."""

LAYER = re.compile(r"(?<=coder\.layers\.)\d+(?=\.)")
"""The number of a layer of an encoder or a decoder of blocks."""


def place_of(name: str, table: Table) -> Place:
    """Where one of our weights stands in theirs."""
    layer = LAYER.search(name)
    place = table[LAYER.sub("{n}", name)]
    return place if layer is None else place.at(layer[0])


def to_ours(
    theirs: Tensors,
    shapes: dict[str, tuple[int, ...]],
    table: Table,
    *,
    where: str,
    zero: Collection[str] = (),
) -> Tensors:
    """Their weights under our names, in float32; every one of them is used, and none is missing.

    shapes: what our model has. where: the file or folder, for messages. zero: the biases of theirs
    that the model does not have, while others of its biases are there: they are zeros in ours.
    """
    left, ours = dict(theirs), Tensors()
    for name, shape in shapes.items():
        place = place_of(name, table)
        if all(part in zero for part in place.names):
            ours[name] = torch.zeros(shape)
            continue
        parts = [_taken(left, part, where=where) for part in place.names]
        if place.transposed:
            parts = [part.T for part in parts]
        same = {part.shape[1:] for part in parts}
        rows = sum(len(part) for part in parts) if parts[0].dim() else 0
        if same != {torch.Size(shape[1:])} or rows != shape[0]:
            raise UserError(
                f"{where}: {' + '.join(place.names)} has shape "
                f"{' + '.join(str(tuple(part.shape)) for part in parts)} where its configuration "
                f"asks for {shape}."
            )
        ours[name] = torch.cat(parts).contiguous()
    for name in left:
        raise UserError(
            f"{where} holds the weight {name}, which this model has no place for: it is not of the "
            f"family that its configuration names."
        )
    return ours


def _taken(left: Tensors, name: str, *, where: str) -> Tensor:
    """A weight of theirs in float32, which is not needed again."""
    if name not in left:
        raise UserError(f"{where} lacks the weight {name}: the file is not whole.")
    return left.pop(name).float()


def to_theirs(ours: Tensors, table: Table, *, sizes: tuple[int, ...]) -> Tensors:
    """Our weights under their names; sizes: the rows of queries, keys and values."""
    theirs = Tensors()
    for name, value in ours.items():
        place = place_of(name, table)
        parts: Iterable[Tensor] = value.split(sizes) if len(place.names) > 1 else (value,)
        for part_name, part in zip(place.names, parts, strict=True):
            theirs[part_name] = (part.T if place.transposed else part).contiguous()
    return theirs


def as_halves(rows: Tensor, heads: int) -> Tensor:
    """The rows of queries or keys, reordered from neighbouring rotary pairs to pairs half apart.

    Of a head's K rows 0 1 2 3 …, the even ones come first and then the odd ones.
    """
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
