"""Small models of other libraries with random weights, written as their own tools write them."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

transformers.utils.logging.disable_progress_bar()

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


BERT_SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
}
ALL_PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog run ##s ##ning sat on mat where is it ? . , 我 "
    "爱 你 red ##dish"
)
PIECES = ALL_PIECES.split()
"""A vocabulary of word pieces."""


def foreign_bert(kind: str, **options: Any) -> Any:
    """A BERT of transformers with a head, and weights large enough that its outputs differ."""
    torch.manual_seed(5)
    values = {"vocab_size": len(PIECES)} | BERT_SIZES | options
    model = getattr(transformers, kind)(transformers.BertConfig(**values)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def write_bert(folder: Path, kind: str, **options: Any) -> tuple[Path, Any]:
    """A Hugging Face folder with such a model and a `vocab.txt`."""
    shard_size = options.pop("max_shard_size", "1GB")
    model = foreign_bert(kind, **options)
    model.save_pretrained(folder, max_shard_size=shard_size)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    return folder, model


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


TEXT = "The quick brown fox's 12 345 dogs; they'll jump over 6,789 lazy cats.\n\n  So it goes. " * 3


def byte_pairs(size: int = 300) -> tokenizers.Tokenizer:
    """A small byte-level tokenizer, whose first ids are `<|end|>` and `<|open|>`."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|end|>", "<|open|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([TEXT], trainer)
    backend.decoder = decoders.ByteLevel()
    return backend


def byte_pair_metadata(words: str) -> dict[str, Any]:
    """The metadata of a byte-level tokenizer in a GGUF file; words: how a text is split."""
    content = json.loads(byte_pairs().to_str())["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": words,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, *[1] * (len(tokens) - 2)],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in content["merges"]],
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def sentence_piece_metadata() -> dict[str, Any]:
    """The metadata of a SentencePiece tokenizer: bytes, characters, and pieces by their scores."""
    pieces = ["▁t", "he", "▁the", "in", "▁d", "og", "▁dog", "s;", "ll", "▁l", "▁▁", "er"]
    characters = sorted({*TEXT.replace(" ", "▁").replace("\n", "")})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    normal = [*pieces, *characters]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [*tokens, *normal],
        "tokenizer.ggml.scores": [0.0] * len(tokens) + [-float(n) for n in range(len(normal))],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(normal)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_proj": "ffn_gate",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_gguf(
    path: Path, model: Any, tokenizer: dict[str, Any], *, metadata: dict[str, Any] | None = None
) -> None:
    """A Llama or Qwen of transformers as a GGUF file in float32, as llama.cpp's converter does."""
    config, kind = model.config, model.config.model_type
    heads, shared = config.num_attention_heads, config.num_key_value_heads
    values = {
        f"{kind}.block_count": config.num_hidden_layers,
        f"{kind}.context_length": config.max_position_embeddings,
        f"{kind}.embedding_length": config.hidden_size,
        f"{kind}.feed_forward_length": config.intermediate_size,
        f"{kind}.attention.head_count": heads,
        f"{kind}.attention.head_count_kv": shared,
        f"{kind}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{kind}.rope.freq_base": float(config.rope_parameters["rope_theta"]),
    }
    if kind == "qwen3":
        values |= dict.fromkeys(
            ("qwen3.attention.key_length", "qwen3.attention.value_length"), config.head_dim
        )
    tensors = {}
    for name, weight in model.state_dict().items():
        for theirs, short in GGUF_NAMES.items():
            name = name.replace(theirs, short)
        if kind == "llama" and ("attn_q" in name or "attn_k" in name):  # neighbouring rotary pairs
            count = heads if "attn_q" in name else shared
            halves = weight.reshape(count, 2, -1, *weight.shape[1:])
            weight = halves.transpose(1, 2).reshape(weight.shape)
        tensors[name] = weight.numpy()
    if config.tie_word_embeddings:
        tensors.pop("output.weight", None)
    write_gguf_file(path, kind, values | tokenizer | (metadata or {}), tensors)


GGUF_GPT2_NAMES = {
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "transformer.h": "blk",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
}


def write_gpt2_gguf(path: Path, model: Any, tokenizer: dict[str, Any]) -> None:
    """A GPT-2 of transformers as a GGUF file, its Conv1D weights turned."""
    config, tensors = model.config, {}
    values = {
        "gpt2.block_count": config.n_layer,
        "gpt2.context_length": config.n_positions,
        "gpt2.embedding_length": config.n_embd,
        "gpt2.feed_forward_length": 4 * config.n_embd,
        "gpt2.attention.head_count": config.n_head,
        "gpt2.attention.layer_norm_epsilon": config.layer_norm_epsilon,
    }
    for name, weight in model.state_dict().items():
        turned = ".c_" in name and name.endswith("weight")
        for theirs, short in GGUF_GPT2_NAMES.items():
            name = name.replace(theirs, short)
        tensors[name] = (weight.T if turned else weight).numpy()
    tensors.pop("lm_head.weight")
    write_gguf_file(path, "gpt2", values | tokenizer, tensors)


def write_gguf_file(
    path: Path, architecture: str, metadata: dict[str, Any], tensors: dict[str, Any]
) -> None:
    """A GGUF file; a tensor may be an array, or a pair of raw bytes and their type."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for name, value in metadata.items():
        _add(writer, name, value)
    for name, value in tensors.items():
        raw, kind = value if isinstance(value, tuple) else (value, None)
        writer.add_tensor(name, np.ascontiguousarray(raw), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: Any, name: str, value: Any) -> None:
    kinds = {bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string"}
    getattr(writer, kinds.get(type(value), "add_array"))(name, value)
