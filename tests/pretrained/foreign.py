"""Small models of other libraries with random weights, written as their own tools write them."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers

SIZES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 96},
    "llama": {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 96,
    },
}
SIZES |= dict.fromkeys(("mistral", "qwen2", "qwen3"), SIZES["llama"])


def words(size: int) -> tokenizers.Tokenizer:
    """A tokenizer of so many words: w0, w1, …"""
    vocabulary = {f"w{number}": number for number in range(size)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend


def foreign_model(kind: str, **options: Any) -> Any:
    """A model of transformers, with weights large enough that its predictions differ."""
    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(kind, **SIZES[kind] | options)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def write_folder(
    folder: Path, kind: str, *, tokens: int | None = None, **options: Any
) -> tuple[Path, Any]:
    """A Hugging Face folder and the model in it; tokens: of its tokenizer, if not vocab_size."""
    options.setdefault("vocab_size", 97)
    shard_size = options.pop("max_shard_size", "1GB")
    model = foreign_model(kind, **options)
    model.save_pretrained(folder, max_shard_size=shard_size)
    words(tokens or options["vocab_size"]).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "w1"}))
    return folder, model
