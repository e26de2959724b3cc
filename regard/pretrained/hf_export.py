"""Export to a Hugging Face folder, which `transformers` loads with equal logits."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from regard.config import Model
from regard.models import GPT, Bert
from regard.nn.multi_head import SelfAttention
from regard.pretrained.architecture import activation_named, refuse_export
from regard.pretrained.bert_export import export_bert
from regard.pretrained.hf_folder import WEIGHTS
from regard.pretrained.hf_tokenizer import SPECIAL, write_json, write_tokenizer
from regard.pretrained.names import GPT2, LLAMA, Table, Tensors, as_halves, to_theirs
from regard.system.errors import UserError
from regard.system.tensors import weights
from regard.tasks.lm import LanguageModelling


def export(model: nn.Module, task: Any, folder: Path) -> None:
    """Write a GPT, or what stands on a BERT, as a folder of Hugging Face's layout."""
    if isinstance(model, GPT):
        export_gpt(model, task, folder)
    elif isinstance(getattr(model, "body", None), Bert):
        export_bert(model, task, folder)
    else:
        raise UserError("--to hf is for models of kind gpt and bert.")


def export_gpt(model: GPT, task: LanguageModelling, folder: Path) -> None:
    """Write a GPT, its tokenizer and its chat template."""
    keys, tokenizer = task.config.model, task.tokenizer
    settings, table = write_config(keys, vocab=len(tokenizer), context=task.config.data.max_length)
    attention = model.decoder.layers[0].self_attention
    ours = weights(model)
    if keys.rotary_pairing == "interleaved" and keys.positions == "rotary":
        ours = _with_halves(ours, attention)
    theirs = to_theirs(ours, table, sizes=attention.projection.heights)
    ids = {f"{theirs}_id": getattr(tokenizer.special, ours) for ours, theirs in SPECIAL.items()}
    folder.mkdir(parents=True)
    save_file(theirs, folder / WEIGHTS, {"format": "pt"})
    write_json(folder / "config.json", settings | ids)
    write_tokenizer(
        folder,
        tokenizer,
        tokenizer.library_json,
        names=SPECIAL,
        context=task.config.data.max_length,
        chat_template=task.template,
    )


def _with_halves(ours: Tensors, attention: SelfAttention) -> Tensors:
    """The same weights for rotary pairs half a head apart, as the Llama family has them."""
    reordered = dict(ours)
    heads = (attention.n_heads, attention.n_kv_heads)
    for name, value in ours.items():
        if ".self_attention.projection." in name:
            *rotated, last = value.split(attention.projection.heights)
            halves = [as_halves(rows, count) for rows, count in zip(rotated, heads, strict=True)]
            reordered[name] = torch.cat([*halves, last])
    return reordered


def write_config(model: Model, *, vocab: int, context: int) -> tuple[dict[str, Any], Table]:
    """The `config.json` of a GPT, and the table of its family.

    A model that neither family has is refused, with the key that makes it so.
    """
    activation = activation_named(model.activation)
    common: dict[str, Any] = {
        "vocab_size": vocab,
        "tie_word_embeddings": model.tie_embeddings != "none",
        "dtype": "float32",
    }
    if model.positions == "learned":
        return common | _gpt2_config(model, activation, context), GPT2
    return common | _llama_config(model, activation, context), LLAMA


def _gpt2_config(model: Model, activation: str, context: int) -> dict[str, Any]:
    refuse_export(
        "GPT-2 (the family with learned positions)",
        {
            "norm=post": model.norm == "post",
            "norm_kind=rms": model.norm_kind == "rms",
            "gated=true": model.gated,
            "bias=false": not model.bias,
            "qk_norm=true": model.qk_norm,
            "window": model.window is not None,
            "n_kv_heads": model.n_kv_heads not in (None, model.n_heads),
            "d_head": model.d_head not in (None, model.d_model // model.n_heads),
            "scaled_embedding=true": model.scaled_embedding,
        },
    )
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_positions": context,
        "n_embd": model.d_model,
        "n_layer": model.n_layers,
        "n_head": model.n_heads,
        "n_inner": model.d_ff,
        "activation_function": activation,
        "layer_norm_epsilon": model.norm_epsilon,
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.attention_dropout,
    }


def _llama_config(model: Model, activation: str, context: int) -> dict[str, Any]:
    refuse_export(
        "Llama (the family with rotary positions)",
        {
            f"positions={model.positions}": model.positions != "rotary",
            "norm=post": model.norm == "post",
            "norm_kind=layer": model.norm_kind == "layer",
            "gated=false": not model.gated,
            "scaled_embedding=true": model.scaled_embedding,
            "qk_norm=true together with bias=true": model.qk_norm and model.bias,
            "qk_norm=true together with window": model.qk_norm and model.window is not None,
            "qk_norm=true together with rotary_pairing=interleaved": model.qk_norm
            and model.rotary_pairing == "interleaved",
            "window together with bias=true": model.window is not None and model.bias,
        },
    )
    kind, name = ("llama", "Llama")
    if model.qk_norm:
        kind, name = ("qwen3", "Qwen3")
    elif model.window is not None:
        kind, name = ("mistral", "Mistral")
    options: dict[str, dict[str, Any]] = {
        "llama": {"attention_bias": model.bias, "mlp_bias": model.bias},
        "qwen3": {"attention_bias": False, "use_sliding_window": False},
        "mistral": {"sliding_window": model.window},
    }
    return options[kind] | {
        "architectures": [f"{name}ForCausalLM"],
        "model_type": kind,
        "max_position_embeddings": context,
        "hidden_size": model.d_model,
        "intermediate_size": model.d_ff,
        "num_hidden_layers": model.n_layers,
        "num_attention_heads": model.n_heads,
        "num_key_value_heads": model.n_kv_heads or model.n_heads,
        "head_dim": model.d_head or model.d_model // model.n_heads,
        "hidden_act": activation,
        "rms_norm_eps": model.norm_epsilon,
        "rope_theta": model.rotary_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rotary_base},
    }
