"""Named sizes of GPT and BERT: the keys of `model` that a name stands for."""

from typing import Any

GPT2: dict[str, Any] = {
    "positions": "learned",
    "activation": "gelu-tanh",
    "scaled_embedding": False,
}
"""The parts of GPT-2, which kind=gpt has where a key is not set."""

BERT: dict[str, Any] = {
    "norm": "post",
    "norm_epsilon": 1e-12,
    "positions": "learned",
    "activation": "gelu",
    "scaled_embedding": False,
    "segments": 2,
    "embedding_norm": True,
    "pooler": True,
}
"""The parts of BERT, which kind=bert has where a key is not set."""

OF_KIND = {"gpt": GPT2, "bert": BERT}
"""The parts that a kind of model has where a key is not set."""

SMOLLM2: dict[str, Any] = {
    "scaled_embedding": False,
    "n_kv_heads": 3,
    "norm_kind": "rms",
    "norm_epsilon": 1e-5,
    "positions": "rotary",
    "rotary_base": 100_000.0,
    "activation": "silu",
    "gated": True,
    "bias": False,
}
"""The parts of the Llama family, as SmolLM2 has them (Allal et al. 2025)."""


def _gpt(n_layers: int, n_heads: int, d_model: int, *, d_ff: int = 0) -> dict[str, Any]:
    """Four times the width in the feed-forward networks, if it is not given."""
    return {
        "kind": "gpt",
        "n_layers": n_layers,
        "n_heads": n_heads,
        "d_model": d_model,
        "d_ff": d_ff or 4 * d_model,
    }


def _bert(n_layers: int, n_heads: int, d_model: int) -> dict[str, Any]:
    """Four times the width in the feed-forward networks, and 512 positions."""
    sizes = _gpt(n_layers, n_heads, d_model)
    return sizes | BERT | {"kind": "bert", "max_positions": 512}


SIZES: dict[str, dict[str, Any]] = {
    "gpt-nano": _gpt(3, 3, 48),
    "gpt-micro": _gpt(4, 4, 128),
    "gpt-mini": _gpt(6, 6, 192),
    "gpt2": _gpt(12, 12, 768) | GPT2,
    "gpt2-medium": _gpt(24, 16, 1024) | GPT2,
    "gpt2-large": _gpt(36, 20, 1280) | GPT2,
    "gpt2-xl": _gpt(48, 25, 1600) | GPT2,
    "smollm2-135m": _gpt(30, 9, 576, d_ff=1536) | SMOLLM2,
    "bert-tiny": _bert(2, 2, 128),
    "bert-mini": _bert(4, 4, 256),
    "bert-small": _bert(4, 8, 512),
    "bert-base": _bert(12, 12, 768),
    "bert-large": _bert(24, 16, 1024),
    "minilm-l6": _bert(6, 12, 384),
}
"""GPT-2 (Radford et al. 2019, table 2), SmolLM2, and three small shapes by minGPT's names.

BERT (Devlin et al. 2019, §3), its smaller ones (Turc et al. 2019), MiniLM (Wang et al. 2020).
"""
