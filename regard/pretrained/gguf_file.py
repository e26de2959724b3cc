"""Import from a GGUF file (llama.cpp's format): metadata, weights, tokenizer, template."""

import re
from pathlib import Path
from typing import Any

import torch

from regard.pretrained.architecture import Architecture, refuse_differences
from regard.pretrained.families import gpt2_keys, llama_keys
from regard.pretrained.gguf_tokenizer import read_tokenizer
from regard.pretrained.imported import Imported, run_of
from regard.pretrained.names import GGUF_GPT2, GGUF_LLAMA, Table, Tensors, as_halves
from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable
from regard.system.optional import needed

ARCHITECTURES = ("gpt2", "llama", "qwen2", "qwen3")
INTERLEAVED = ("llama",)
"""Where a file has the rows of queries and keys in the order of neighbouring rotary pairs."""
UNKNOWN_TYPE = "GGMLQuantizationType"
"""What the package's error says of a tensor type that it does not know."""

Metadata = dict[str, Any]


def read_gguf(path: Path) -> Imported:
    """The model in a GGUF file, its weights dequantised to float32."""
    package = needed("gguf", extra="gguf", what=f"Importing {path}")
    with saying_why_unreadable(path):
        path.open("rb").close()
    try:
        reader = package.GGUFReader(str(path))
        metadata = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # the package checks little: any error may come of a damaged file
        raise UserError(f"{path} {_fault(error)}.") from None
    architecture = read_architecture(metadata, reader.tensors, where=str(path))
    tokenizer = read_tokenizer(metadata, where=str(path))
    theirs = {tensor.name: _dequantised(package, tensor, path) for tensor in reader.tensors}
    if metadata["general.architecture"] in INTERLEAVED:
        theirs = _with_halves(theirs, architecture)
    template = metadata.get("tokenizer.chat_template")
    return run_of(
        architecture,
        theirs,
        tokenizer,
        template=template if isinstance(template, str) else None,
        where=str(path),
    )


def _fault(error: Exception) -> str:
    if UNKNOWN_TYPE in str(error):
        numbers = re.findall(r"\d+", str(error))
        return (
            f"has weights of the type {numbers[-1]}, which the installed package gguf does not "
            f"know: try a newer one"
        )
    return f"is not a whole GGUF file ({error}): copy it again"


def _dequantised(package: Any, tensor: Any, path: Path) -> torch.Tensor:
    """The numbers of a tensor in float32; gguf has the dimensions in the opposite order."""
    shape = tuple(int(size) for size in reversed(tensor.shape))
    try:
        values = package.quants.dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(values.astype("float32")).reshape(shape)
    except NotImplementedError:
        raise UserError(
            f"{path}: {tensor.name} has the type {tensor.tensor_type.name}, which the package gguf "
            f"cannot dequantise; take a file of another type, such as Q8_0."
        ) from None


def _with_halves(theirs: Tensors, architecture: Architecture) -> Tensors:
    """The queries and keys with rotary pairs half a head apart, as ours are by default."""
    heads = {
        "attn_q": architecture.keys["n_heads"],
        "attn_k": architecture.keys["n_kv_heads"],
    }
    return {
        name: as_halves(value, heads[part]) if (part := name.split(".")[-2]) in heads else value
        for name, value in theirs.items()
    }


def read_architecture(metadata: Metadata, tensors: list[Any], *, where: str) -> Architecture:
    """The architecture that the metadata of a file describe."""
    name = metadata.get("general.architecture")
    if name not in ARCHITECTURES:
        raise UserError(
            f"{where}: the architecture {name!r} cannot be imported; it may be "
            f"{', '.join(ARCHITECTURES)}."
        )
    values = _Values(metadata, str(name), where)
    names = {tensor.name for tensor in tensors}
    scaling = values.get("rope.scaling.type", "none")
    refuse_differences(
        where,
        {
            f"rope scaling {scaling!r}": scaling != "none",
            "rope scaling by rope_freqs.weight": "rope_freqs.weight" in names,
            "a mixture of experts": bool(values.get("expert_count", 0)),
        },
    )
    table, keys = (
        (GGUF_GPT2, _gpt2(values)) if name == "gpt2" else (GGUF_LLAMA, _llama(values, names))
    )
    keys["tie_embeddings"] = "output.weight" not in names
    vocab = next(int(t.shape[-1]) for t in tensors if t.name == "token_embd.weight")
    zero = _absent_biases(table, names, keys["n_layers"]) if name != "gpt2" else frozenset()
    return Architecture(keys, values.number("context_length"), vocab, table, zero=zero)


class _Values:
    """The metadata under an architecture's name."""

    def __init__(self, metadata: Metadata, architecture: str, where: str) -> None:
        self._metadata, self._architecture, self.where = metadata, architecture, where

    def get(self, name: str, default: Any) -> Any:
        return self._metadata.get(f"{self._architecture}.{name}", default)

    def number(self, name: str, default: Any = None) -> Any:
        """A number that must be there, unless it has a default."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            fault = "is missing" if value is None else f"is {value!r}, not one number"
            raise UserError(f"{self.where}: {self._architecture}.{name} {fault}.")
        return value


def _sizes(values: _Values) -> dict[str, Any]:
    return {
        "d_model": values.number("embedding_length"),
        "n_layers": values.number("block_count"),
        "n_heads": values.number("attention.head_count"),
        "d_ff": values.number("feed_forward_length"),
    }


def _gpt2(values: _Values) -> dict[str, Any]:
    epsilon = values.number("attention.layer_norm_epsilon")
    return gpt2_keys() | _sizes(values) | {"activation": "gelu-tanh", "norm_epsilon": epsilon}


def _llama(values: _Values, names: set[str]) -> dict[str, Any]:
    sizes = _sizes(values)
    width = values.number("attention.key_length", sizes["d_model"] // sizes["n_heads"])
    refuse_differences(
        values.where,
        {
            "a rope.dimension_count other than the width of a head": values.number(
                "rope.dimension_count", width
            )
            != width,
            "values of another width than keys": values.number("attention.value_length", width)
            != width,
        },
    )
    return {
        **llama_keys(),
        **sizes,
        "n_kv_heads": values.number("attention.head_count_kv", sizes["n_heads"]),
        "d_head": width,
        "activation": "silu",
        "norm_epsilon": values.number("attention.layer_norm_rms_epsilon"),
        "rotary_base": values.number("rope.freq_base", 10_000.0),
        "window": values.get("attention.sliding_window", None),
        "qk_norm": "blk.0.attn_q_norm.weight" in names,
        "bias": any(name.startswith("blk.") and name.endswith(".bias") for name in names),
    }


def _absent_biases(table: Table, names: set[str], layers: int) -> frozenset[str]:
    """The biases of every layer that the file does not have."""
    known = (
        name.replace("{n}", str(layer))
        for place in table.values()
        for name in place.names
        if name.endswith(".bias")
        for layer in range(layers)
    )
    return frozenset(name for name in known if name not in names)
