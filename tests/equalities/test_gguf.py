"""A GGUF file is read as llama.cpp reads it: weights of every type, tokens, continuations."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

import regard
from regard.decoding import collect, greedy
from regard.pretrained.gguf_file import read_gguf
from regard.pretrained.gguf_tokenizer import WORDS
from regard.runs.importing import import_run
from tests.pretrained.foreign import (
    TEXT,
    byte_pair_metadata,
    foreign_model,
    sentence_piece_metadata,
    write_gguf,
    write_gguf_file,
    write_gpt2_gguf,
)
from tests.pretrained.llama_cpp import LlamaCpp

ODD = [
    TEXT,
    "",
    " ",
    "\n",
    "  two  spaces   and\ttabs \n\n lines\r\n",
    "don't I'LL they've 'Re",
    "1234567890 3.14 ½ ² ٣ 一二三",
    "日本語 e\u0301 naïve 🙂🙃",
    "<|end|> <|open|> </s> <unk>",
    "\x00\x7f",
    "(a+b)*c == {x: [1]}; !!??",
]
"""Texts that tokenizers disagree on."""


def grouped(**options: Any) -> Any:
    """A small Llama with grouped heads."""
    return foreign_model("llama", num_key_value_heads=2, tie_word_embeddings=True, **options)


@pytest.mark.parametrize("words", WORDS)
def test_token_ids_are_those_of_llama_cpp(words: str, tmp_path: Path) -> None:
    metadata = byte_pair_metadata(words)
    write_gguf(tmp_path / "m.gguf", grouped(vocab_size=300), metadata)
    import_run(str(tmp_path / "m.gguf"), tmp_path / "run")
    tokenizer, llama = regard.load(tmp_path / "run").tokenizer, LlamaCpp(tmp_path / "m.gguf")
    assert tokenizer.encode(ODD) == [llama.tokenize(text) for text in ODD]
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(ODD)] == ODD


def test_sentence_pieces_are_those_of_llama_cpp(tmp_path: Path) -> None:
    metadata = sentence_piece_metadata()
    size = len(metadata["tokenizer.ggml.tokens"])
    write_gguf(tmp_path / "m.gguf", grouped(vocab_size=size), metadata)
    tokenizer = regard.data.tokenizer.Tokenizer(
        read_gguf(tmp_path / "m.gguf").files["tokenizer.json"]
    )
    llama = LlamaCpp(tmp_path / "m.gguf")
    texts = [text for text in ODD if "</s>" not in text]
    assert tokenizer.encode(texts) == [llama.tokenize(text) for text in texts]
    assert tokenizer.special.opening == (1,)
    assert tokenizer.decode(tokenizer.encode(["the dogs"])[0]) == "the dogs"


@torch.inference_mode()
def test_a_file_gives_the_logits_of_transformers_and_the_tokens_of_llama_cpp(
    tmp_path: Path,
) -> None:
    theirs = grouped(vocab_size=300)
    write_gguf(tmp_path / "m.gguf", theirs, byte_pair_metadata("gpt-2"))
    import_run(str(tmp_path / "m.gguf"), tmp_path / "run")
    model = regard.load(tmp_path / "run").model
    prompt = torch.randint(2, 300, (1, 12))
    assert float((model(prompt) - theirs(prompt).logits).abs().max()) <= 1e-4
    state = model.start(prompt[:, :-1])
    steps = greedy(model, state, prompt[:, -1], end=-1, max_new_tokens=32)
    ours = collect(steps)[0][0].tokens
    tokens, likely = LlamaCpp(tmp_path / "m.gguf", exact=True).greedy(prompt[0].tolist(), 32)
    assert ours[: len(tokens)] == tokens
    rows = model(torch.tensor([prompt[0].tolist() + tokens]))[0].log_softmax(-1)
    for step, expected in enumerate(likely):
        for token, log_probability in expected.items():
            assert float(rows[11 + step, token]) == pytest.approx(log_probability, abs=1e-3)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "gpt2"])
@torch.inference_mode()
def test_other_architectures_give_the_logits_of_transformers(kind: str, tmp_path: Path) -> None:
    heads = {} if kind == "gpt2" else {"num_key_value_heads": 2}
    heads |= {"head_dim": 8} if kind == "qwen3" else {}
    theirs = foreign_model(kind, vocab_size=300, tie_word_embeddings=True, **heads)
    write = write_gpt2_gguf if kind == "gpt2" else write_gguf
    write(tmp_path / "m.gguf", theirs, byte_pair_metadata("gpt-2"))
    import_run(str(tmp_path / "m.gguf"), tmp_path / "run")
    model, tokens = regard.load(tmp_path / "run").model, torch.randint(2, 300, (2, 12))
    assert float((model(tokens) - theirs(tokens).logits).abs().max()) <= 1e-4


@pytest.mark.parametrize("kind", gguf.quants._type_traits, ids=lambda kind: kind.name)
def test_weights_of_every_type_are_dequantised(kind: Any, tmp_path: Path) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    width = 256  # a multiple of every type's block
    generator = np.random.default_rng(0)
    # Without the highest bits, whatever stands for a scale is a small number.
    raw = generator.integers(0, 256, (width, width // block * size), dtype=np.uint8) & 0x3B
    model = foreign_model("llama", vocab_size=300, num_hidden_layers=1, hidden_size=width)
    write_gguf(tmp_path / "plain.gguf", model, byte_pair_metadata("gpt-2"))
    plain = gguf.GGUFReader(str(tmp_path / "plain.gguf"))
    tensors = {t.name: np.array(t.data) for t in plain.tensors}
    tensors["blk.0.attn_output.weight"] = (raw, kind)
    metadata = {
        name: field.contents()
        for name, field in plain.fields.items()
        if not name.startswith(("GGUF.", "general."))
    }
    write_gguf_file(tmp_path / "m.gguf", "llama", metadata, tensors)
    imported = read_gguf(tmp_path / "m.gguf")
    expected = gguf.quants.dequantize(raw, kind)
    ours = imported.weights["decoder.layers.0.self_attention.output.weight"].numpy()
    np.testing.assert_array_equal(ours, expected)
    assert ours.std() > 0
