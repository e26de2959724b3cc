"""Hugging Face folders: what is exported there, and the forms that tokenizers have in them."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers.processors import TemplateProcessing

import regard
from regard.runs.importing import import_run
from tests.command import refused
from tests.pretrained.foreign import byte_pairs, foreign_model, write_folder


def _tiny_gpt(folder: Path) -> Path:
    """The configuration of a GPT that learns a few lines for two steps."""
    values = {
        "task": "lm",
        "data": dict.fromkeys(("train", "valid", "test"), "text.txt") | {"max_length": 16},
        "tokenizer": {"kind": "chars"},
        "model": {"kind": "gpt", "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 32},
        "train": {"steps": 2, "batch_size": 2, "eval_every": 2, "save_every": 2},
    }
    (folder / "gpt.yaml").write_text(json.dumps(values))
    return folder / "gpt.yaml"


def test_a_gpt_that_was_trained_here_is_loaded_by_transformers(call, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("To be or not to be.\n" * 20)
    trained = call("train", _tiny_gpt(tmp_path), "--out", "run")
    assert trained.code == 0, trained.err
    assert call("export", "run", "--to", "hf", "--out", "hf").code == 0
    run = regard.load("run")
    model = transformers.AutoModelForCausalLM.from_pretrained("hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("hf")
    texts = ["to be", "not to be."]
    assert [tokenizer.encode(text) for text in texts] == run.tokenizer.encode(texts)
    assert tokenizer.eos_token_id == run.tokenizer.end
    ids = torch.tensor(run.tokenizer.encode(["not to be"]))
    with torch.inference_mode():
        torch.testing.assert_close(run.model(ids), model(ids).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ("positions=sinusoidal",),
            "Llama (the family with rotary positions) has no model.positions",
        ),
        (
            ("norm_kind=rms",),
            "GPT-2 (the family with learned positions) has no model.norm_kind=rms",
        ),
        (("positions=rotary",), "has no model.norm_kind=layer"),
    ],
)
def test_a_model_of_neither_family_is_not_exported(call, tmp_path: Path, settings, words) -> None:
    (tmp_path / "text.txt").write_text("To be or not to be.\n" * 20)
    options = [word for key in settings for word in ("-s", f"model.{key}")]
    assert call("train", _tiny_gpt(tmp_path), *options, "--out", "run").code == 0
    refused(call("export", "run", "--to", "hf", "--out", "x"), words)


def test_rotary_pairs_of_neighbours_are_exported_as_halves(call, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("To be or not to be.\n" * 20)
    keys = ("positions=rotary", "norm_kind=rms", "gated=true", "rotary_pairing=interleaved")
    options = [word for key in keys for word in ("-s", f"model.{key}")]
    assert call("train", _tiny_gpt(tmp_path), *options, "--out", "run").code == 0
    assert call("export", "run", "--to", "hf", "--out", "hf").code == 0
    run = regard.load("run")
    model = transformers.AutoModelForCausalLM.from_pretrained("hf").eval()
    ids = torch.tensor(run.tokenizer.encode(["not to be"]))
    with torch.inference_mode():
        torch.testing.assert_close(run.model(ids), model(ids).logits, atol=1e-4, rtol=0)


def test_a_vocabulary_with_merges_is_the_tokenizer_that_it_was(tmp_path: Path) -> None:
    backend = byte_pairs()
    folder = tmp_path / "hf"
    foreign_model("gpt2", vocab_size=300).save_pretrained(folder)
    backend.model.save(str(folder))
    assert {"vocab.json", "merges.txt"} <= {path.name for path in folder.iterdir()}
    (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    import_run(str(folder), tmp_path / "run")
    tokenizer = regard.load(tmp_path / "run").tokenizer
    text = "The quick  brown fox's 12 日本\n"
    assert tokenizer.encode([text]) == [backend.encode(text).ids]
    assert tokenizer.decode(backend.encode(text).ids) == text
    assert (tokenizer.end, tokenizer.start, tokenizer.special.opening) == (0, None, ())


def test_rows_without_a_token_are_left_out_and_counted(call, tmp_path: Path) -> None:
    folder, theirs = write_folder(tmp_path / "hf", "llama", vocab_size=104, tokens=97)
    result = call("import", folder, "--out", "run")
    assert "7 of 104 rows of the embedding belong to no token" in result.err
    ids = torch.randint(97, (1, 9))
    with torch.inference_mode():
        ours, expected = regard.load("run").model(ids), theirs(ids).logits[..., :97]
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=0)


def test_a_tokenizer_that_begins_texts_with_a_token_keeps_doing_so(tmp_path: Path) -> None:
    folder, _ = write_folder(tmp_path / "hf", "llama")
    backend = byte_pairs()
    start = ("<|open|>", backend.token_to_id("<|open|>"))
    backend.post_processor = TemplateProcessing(single="<|open|> $A", special_tokens=[start])
    foreign_model("llama", vocab_size=300).save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": {"content": "<|end|>"}, "bos_token": "<|open|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    import_run(str(folder), tmp_path / "run")
    tokenizer = regard.load(tmp_path / "run").tokenizer
    (ids,) = tokenizer.encode(["So it goes"])
    assert tokenizer.begun(ids) == backend.encode("So it goes").ids
    assert tokenizer.begun([]) == [start[1]]
