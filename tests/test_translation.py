"""From two files to a translator: every part of the way, on a few sentences."""

import json
import re
from pathlib import Path

import pytest

from tests.command import refused

ENGLISH = ["A man runs.", "A dog runs.", "A man has a dog.", "The dog is big.", "The man is here."]
GERMAN = [
    "Ein Mann rennt.",
    "Ein Hund rennt.",
    "Ein Mann hat einen Hund.",
    "Der Hund ist groß.",
    "Der Mann ist hier.",
]
CONFIG = """
task: translate
data:
  {{train: train, valid: train, test: train, source: en, target: de, max_length: 60,
    scores: translation}}
tokenizer: {{kind: {kind}, vocab_size: 400}}
model: {{kind: {model}, d_model: 32, d_ff: 64, n_layers: 1, dropout: 0.0}}
train: {{steps: {steps}, batch_size: 5, lr: 0.01, warmup: 20, eval_every: {steps}, metric: bleu}}
decode: {{strategy: beam, max_new_tokens: 60}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.en").write_text("".join(f"{line}\n" for line in ENGLISH))
    (tmp_path / "train.de").write_text("".join(f"{line}\n" for line in GERMAN))
    return tmp_path


def configure(
    folder: Path, *, kind: str = "bpe", model: str = "transformer", steps: int = 3
) -> None:
    text = CONFIG.format(kind=kind, model=model, steps=steps)
    (folder / "mine.yaml").write_text(text)


@pytest.mark.parametrize(
    ("kind", "model"),
    [("bpe", "transformer"), ("unigram", "gru"), ("wordpiece", "transformer"), ("bytes", "lstm")],
)
def test_a_few_sentences_are_learned_by_heart(call, folder: Path, kind: str, model: str) -> None:
    configure(folder, kind=kind, model=model, steps=150)
    assert call("train", "mine.yaml", "--data", ".", "--out", "run").code == 0
    assert call("predict", "run", "train.en").out.splitlines() == GERMAN
    scores = json.loads(call("evaluate", "run", "--json").out)["metrics"]
    assert scores["bleu"] == pytest.approx(100)
    assert scores["ter"] == 0
    assert re.fullmatch(
        r"nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:.*", scores["bleu_signature"]
    )


def test_the_report_shows_where_it_is_weak(call, folder: Path) -> None:
    configure(folder)
    call("train", "mine.yaml", "--data", ".", "--out", "run")
    result = call("evaluate", "run", "--analysis")
    assert "length ratio" in result.out
    assert "The worst, by chrF:" in result.out
    page = (folder / "run/report.html").read_text()
    assert page.count("<img") >= 3  # by length, curves, attention
    assert "https://" not in page
    assert "The man is here." in page
    found = json.loads(call("evaluate", "run", "--analysis", "--json").out)["analysis"]
    assert sum(one["sentences"] for one in found["by_length"]) == 5
    call("train", "sort", "-s", "train.steps=1", "--out", "sort")
    refused(call("evaluate", "sort", "--analysis"), "--analysis is of translations")


def test_a_character_that_pieces_lack_is_counted_and_not_refused(call, folder: Path) -> None:
    configure(folder)
    call("train", "mine.yaml", "--data", ".", "--out", "run")
    result = call("predict", "run", stdin="A 漢 dog.\n")
    assert result.code == 0
    assert "the input: 1 of" in result.err
    refused(call("predict", "run", stdin="A dog. " * 40), "standard input:1: ", "Split the line")


def test_a_tokenizer_that_the_weights_were_not_trained_with_is_refused(call, folder: Path) -> None:
    configure(folder)
    call("train", "mine.yaml", "--data", ".", "--out", "run")
    file = folder / "run/tokenizer.json"
    file.write_text(file.read_text().replace("NFC", "NFD"))
    refused(call("predict", "run", stdin="A dog.\n"), "was trained with another tokenizer")


def test_what_cannot_be_is_refused(call, folder: Path) -> None:
    configure(folder)
    mine = ("train", "mine.yaml", "--data", ".")
    refused(call(*mine, "-s", "data.scores=exact"), "train.metric=bleu is not measured here")
    small = ("-s", "tokenizer.vocab_size=100", "-s", "tokenizer.kind=bytes")
    refused(call(*mine, *small), "vocab_size=100 is less than the 260")
