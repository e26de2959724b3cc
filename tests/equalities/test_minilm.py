"""MiniLM, the encoder that pip installs: its hidden states, pooler and ids are transformers'."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard.data.batches import padded
from regard.data.frame import framed
from regard.pretrained.sources import PACKAGES
from regard.runs.importing import import_run

TEXTS = [
    "A man is eating food.",
    "no",
    "The girl is carrying a baby, and the baby is carrying nothing at all; 我爱你, naïve café!",
    "",
    "words " * 300,
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run, the model of transformers and its tokenizer."""
    path, source = tmp_path_factory.mktemp("minilm") / "run", PACKAGES["minilm"].path().parent
    import_run("minilm", path)
    theirs = transformers.AutoModel.from_pretrained(source).eval()
    return regard.load(path), theirs, transformers.AutoTokenizer.from_pretrained(source)


def test_it_is_an_encoder_whose_vectors_are_means_of_length_one(pair: Any) -> None:
    run, _, _ = pair
    keys = run.config.model
    assert (run.config.task, keys.pooling, keys.normalize) == ("embed", "mean", True)
    assert sum(weight.numel() for weight in run.model.parameters()) == 22_713_216


@torch.inference_mode()
def test_hidden_states_and_pooler_of_a_ragged_batch_are_those_of_transformers(pair: Any) -> None:
    run, theirs, tokenizer = pair
    rows = [framed(ids, run.tokenizer.special) for ids in run.tokenizer.encode(TEXTS)]
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    tokens, lengths = padded(rows, run.tokenizer.special)
    assert tokens.equal(batch["input_ids"])
    assert lengths.equal(batch["attention_mask"].sum(dim=1))
    ours, expected = run.model.body(tokens, lengths), theirs(**batch)
    real = batch["attention_mask"].bool()
    difference = (ours.hidden - expected.last_hidden_state)[real].abs().max()
    assert difference <= 1e-4
    torch.testing.assert_close(ours.summary, expected.pooler_output, atol=1e-4, rtol=0)


@torch.inference_mode()
def test_a_vector_is_the_normalised_mean_of_the_hidden_states(pair: Any) -> None:
    run, theirs, tokenizer = pair
    texts = [text for text in TEXTS if text]
    vectors = [prediction.vector for prediction in run.predictions(texts)]
    for text, vector in zip(texts, vectors, strict=True):
        hidden = theirs(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean = hidden.mean(dim=0)
        torch.testing.assert_close(torch.tensor(vector), mean / mean.norm(), atol=1e-5, rtol=0)


def test_texts_are_not_cut_where_its_tokenizer_file_says_so(pair: Any) -> None:
    run, _, _ = pair
    assert "max_length" in (PACKAGES["minilm"].path().parent / "tokenizer.json").read_text()
    assert len(run.tokenizer.encode(["words " * 300])[0]) == 300


def test_verify_holds_for_it(pair: Any) -> None:
    from regard.verify import run_checks

    run, _, _ = pair
    checks = list(run_checks(run))
    assert len(checks) == 4
    for check in checks:
        assert check.difference() <= check.tolerance, check.name


def test_its_export_is_loaded_by_transformers_with_the_same_states(pair: Any, tmp_path: Path):
    run, theirs, tokenizer = pair
    run.export("hf", tmp_path / "hf")
    loaded = transformers.AutoModel.from_pretrained(tmp_path / "hf")
    for name, weight in theirs.state_dict().items():
        assert weight.equal(loaded.state_dict()[name]), name
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert again(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
