"""Imported and exported models are the ones of transformers: logits, and greedy continuations."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard.decoding import collect, greedy
from regard.runs.importing import import_run
from tests.pretrained.foreign import write_folder

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {}),
    "gpt2, untied, an inner width": ("gpt2", {"tie_word_embeddings": False, "n_inner": 50}),
    "gpt2, another activation": ("gpt2", {"activation_function": "gelu", "vocab_size": 131}),
    "llama": ("llama", {"tie_word_embeddings": False}),
    "llama, grouped heads, tied": (
        "llama",
        {"num_key_value_heads": 2, "tie_word_embeddings": True, "rms_norm_eps": 1e-3},
    ),
    "llama, one key head, its own width, another base": (
        "llama",
        {
            "num_key_value_heads": 1,
            "head_dim": 10,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    ),
    "llama, biases in attention": ("llama", {"attention_bias": True}),
    "llama, biases in the feed-forward network": ("llama", {"mlp_bias": True}),
    "mistral, a window": ("mistral", {"sliding_window": 5, "num_key_value_heads": 2}),
    "qwen2, biases of queries, keys and values": ("qwen2", {"num_key_value_heads": 2}),
    "qwen3, normed queries and keys": ("qwen3", {"num_key_value_heads": 2, "head_dim": 8}),
}


@pytest.fixture(params=SHAPES, scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that was imported, and the model of transformers."""
    kind, options = SHAPES[request.param]
    folder = tmp_path_factory.mktemp("foreign")
    _, theirs = write_folder(folder / "hf", kind, **options)
    import_run(str(folder / "hf"), folder / "run")
    return regard.load(folder / "run"), theirs


def tokens_for(model: Any) -> torch.Tensor:
    return torch.randint(
        model.config.vocab_size, (3, 20), generator=torch.Generator().manual_seed(0)
    )


@torch.inference_mode()
def largest_difference(ours: Any, theirs: Any) -> float:
    tokens = tokens_for(theirs)
    return float((ours(tokens) - theirs(tokens).logits).abs().max())


def test_logits_are_those_of_transformers(pair: Any) -> None:
    run, theirs = pair
    assert largest_difference(run.model, theirs) <= 1e-4


@torch.inference_mode()
def test_greedy_continuations_are_those_of_transformers_for_64_tokens(pair: Any) -> None:
    run, theirs = pair
    prompt = tokens_for(theirs)[:, :7]
    state = run.model.start(prompt[:, :-1])
    steps = greedy(run.model, state, prompt[:, -1], end=-1, max_new_tokens=64)
    ours = [best.tokens for best, *_ in collect(steps)]
    expected = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=64,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert ours == expected[:, 7:].tolist()


def test_an_export_is_loaded_by_transformers_and_imported_again(pair: Any, tmp_path: Path) -> None:
    run, _ = pair
    run.export("hf", tmp_path / "hf")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    assert largest_difference(run.model, loaded) <= 1e-4
    import_run(str(tmp_path / "hf"), tmp_path / "again")
    again = regard.load(tmp_path / "again")
    for name, weight in again.model.state_dict().items():
        assert weight.equal(run.model.state_dict()[name]), name
    assert again.tokenizer.json == run.tokenizer.json
