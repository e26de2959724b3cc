"""The families of models: GPT-2's and Llama's `config.json` as keys of `model`; BERT's beside."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.pretrained.architecture import (
    Architecture,
    ForeignConfig,
    activation_of,
    read_config,
    refuse_differences,
)
from regard.pretrained.bert import read_bert
from regard.pretrained.names import GPT2, LLAMA
from regard.system.errors import UserError


class Gpt2Config(ForeignConfig):
    """`config.json` of GPT-2, with the defaults that the format has."""

    vocab_size: int = Field(50257, ge=1)
    n_positions: int = Field(1024, ge=1)
    n_embd: int = Field(768, ge=1)
    n_layer: int = Field(12, ge=1)
    n_head: int = Field(12, ge=1)
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    resid_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    tie_word_embeddings: bool = True
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    add_cross_attention: bool = False


class LlamaConfig(ForeignConfig):
    """`config.json` of Llama, Mistral and Qwen, with the defaults that the formats share."""

    model_type: str
    vocab_size: int = Field(ge=1)
    hidden_size: int = Field(ge=1)
    intermediate_size: int = Field(ge=1)
    num_hidden_layers: int = Field(ge=1)
    num_attention_heads: int = Field(ge=1)
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = Field(2048, ge=1)
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    partial_rotary_factor: float = 1.0
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None
    use_sliding_window: bool | None = None

    @property
    def rope(self) -> dict[str, Any]:
        """How its positions rotate; older files have these values under other keys."""
        scaling = self.rope_parameters or self.rope_scaling or {}
        return {"rope_theta": self.rope_theta, "rope_type": scaling.get("type", "default")} | {
            key: value for key, value in scaling.items() if value is not None
        }


Names = Collection[str]
"""The names of the weights in the files, without which a `config.json` does not say everything."""
Reader = Callable[[Path, Names], Architecture]
"""(folder, names of its weights) -> what its `config.json` describes."""
CONFIG = "config.json"


def reader_of(folder: Path) -> Reader:
    """What reads a `config.json` of this folder's model type."""
    kind = read_config(folder / CONFIG, dict[str, Any]).get("model_type")
    if not isinstance(kind, str) or kind not in READERS:
        raise UserError(
            f"{folder / CONFIG}: a model of type {kind!r} cannot be imported; it may be "
            f"{', '.join(READERS)}."
        )
    return READERS[kind]


def _read_gpt2(folder: Path, names: Names) -> Architecture:
    where = str(folder / CONFIG)
    values: Gpt2Config = read_config(folder / CONFIG, Gpt2Config)
    refuse_differences(
        where,
        {
            "scale_attn_weights=false": not values.scale_attn_weights,
            "scale_attn_by_inverse_layer_idx": values.scale_attn_by_inverse_layer_idx,
            "add_cross_attention": values.add_cross_attention,
        },
    )
    keys = {
        "d_model": values.n_embd,
        "n_layers": values.n_layer,
        "n_heads": values.n_head,
        "d_ff": 4 * values.n_embd if values.n_inner is None else values.n_inner,
        "activation": activation_of(values.activation_function, where=where),
        "norm_epsilon": values.layer_norm_epsilon,
        "dropout": values.resid_pdrop,
        "attention_dropout": values.attn_pdrop,
        "tie_embeddings": values.tie_word_embeddings,
    }
    return Architecture(
        gpt2_keys() | keys,
        values.n_positions,
        values.vocab_size,
        GPT2,
        copies=_copies(tied=values.tie_word_embeddings),
    )


def _read_llama(folder: Path, names: Names) -> Architecture:
    where = str(folder / CONFIG)
    values: LlamaConfig = read_config(folder / CONFIG, LlamaConfig)
    kind, rope = values.model_type, values.rope
    refuse_differences(
        where,
        {
            f"rope scaling {rope['rope_type']!r}": rope["rope_type"] != "default",
            "partial_rotary_factor": values.partial_rotary_factor != 1
            or rope.get("partial_rotary_factor", 1) != 1,
            "use_sliding_window": kind != "mistral" and bool(values.use_sliding_window),
        },
    )
    biased = {
        **dict.fromkeys(("q_proj", "k_proj", "v_proj"), values.attention_bias or kind == "qwen2"),
        "o_proj": values.attention_bias and kind != "qwen2",
        **dict.fromkeys(("gate_proj", "up_proj", "down_proj"), values.mlp_bias),
    }
    keys = {
        "d_model": values.hidden_size,
        "n_layers": values.num_hidden_layers,
        "n_heads": values.num_attention_heads,
        "n_kv_heads": values.num_key_value_heads,
        "d_head": values.head_dim or (128 if kind == "qwen3" else None),
        "d_ff": values.intermediate_size,
        "activation": activation_of(values.hidden_act, where=where),
        "norm_epsilon": values.rms_norm_eps,
        "rotary_base": rope["rope_theta"],
        "qk_norm": kind == "qwen3",
        "window": values.sliding_window if kind == "mistral" else None,
        "bias": any(biased.values()),
        "tie_embeddings": values.tie_word_embeddings,
    }
    return Architecture(
        llama_keys() | keys,
        values.max_position_embeddings,
        values.vocab_size,
        LLAMA,
        copies=_copies(tied=values.tie_word_embeddings),
        zero=_absent_biases(biased, values.num_hidden_layers),
    )


def _copies(*, tied: bool) -> frozenset[str]:
    return frozenset(["lm_head.weight"] if tied else [])


def _absent_biases(biased: dict[str, bool], layers: int) -> frozenset[str]:
    """The biases of every layer that a model does not have; biased: which linear layers have."""
    names = [name for place in LLAMA.values() for name in place.names if name.endswith(".bias")]
    absent = [name for name in names if not biased[name.split(".")[-2]]]
    return frozenset(name.replace("{n}", str(n)) for name in absent for n in range(layers))


READERS: dict[str, Reader] = {
    "gpt2": _read_gpt2,
    "llama": _read_llama,
    "mistral": _read_llama,
    "qwen2": _read_llama,
    "qwen3": _read_llama,
    "bert": read_bert,
}
"""What reads the `config.json` of each model type."""


def gpt2_keys() -> dict[str, Any]:
    """What every GPT-2 has."""
    return {"kind": "gpt", "positions": "learned", "scaled_embedding": False}


def llama_keys() -> dict[str, Any]:
    """What every model of the Llama family has."""
    return {
        "kind": "gpt",
        "positions": "rotary",
        "norm_kind": "rms",
        "gated": True,
        "bias": False,
        "dropout": 0.0,
        "scaled_embedding": False,
    }
