"""From two files to a translator: every part of the way, on a few sentences."""

import json
import re
from pathlib import Path

import pytest

from regard.metrics.bleu import bleu
from regard.metrics.translation import MAKERS, words_of
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
model: {{kind: {model}, d_model: 32, n_layers: 1, dropout: 0.0}}
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
    metrics = json.loads(call("evaluate", "run", "--json").out)["metrics"]
    assert metrics["bleu"] == pytest.approx(100)
    assert metrics["ter"] == 0
    assert re.fullmatch(
        r"nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:.*", metrics["bleu_signature"]
    )


@pytest.mark.pictures
def test_the_report_shows_where_it_is_weak(call, folder: Path, tiny_run: Path) -> None:
    configure(folder, steps=40)
    call("train", "mine.yaml", "--data", ".", "--out", "run")
    result = call("evaluate", "run", "--analysis")
    assert "length ratio" in result.out
    assert "The worst, by chrF:" in result.out
    page = (folder / "run/report.html").read_text()
    assert page.count("<img") >= 3  # by length, curves, attention
    assert "https://" not in page
    assert "The man is here." in page
    analysis = json.loads(call("evaluate", "run", "--analysis", "--json").out)["analysis"]
    assert sum(one["sentences"] for one in analysis["by_length"]) == 5
    outputs, cut = call("predict", "run", "train.en").out.splitlines(), words_of("de")
    by_formula = bleu([cut(one) for one in outputs], [cut(one) for one in GERMAN])
    assert by_formula.score == pytest.approx(
        call("evaluate", "run", "--json").json["metrics"]["bleu"]
    )
    refused(call("evaluate", tiny_run, "--analysis"), "--analysis is for translation")


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "words"])
def test_what_the_vocabulary_lacks_is_counted_and_not_refused(
    call, folder: Path, kind: str
) -> None:
    configure(folder, kind=kind)
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
    for kind in ("bpe", "unigram", "wordpiece"):
        tiny = ("-s", "tokenizer.vocab_size=9", "-s", f"tokenizer.kind={kind}")
        refused(call(*mine, *tiny), "tokenizer.vocab_size=9 is too small: every character")
    refused(call(*mine, "-s", "data.target=no"), "nor", "train.en and", "train.no")
    for side in ("en", "de"):
        name = f"data.train=train.{side}"
        refused(call(*mine, "-s", name), f"name it without its ending, .{side}, and all")
    refused(call(*mine, "-s", "data.train="), "the key 'data.train' is missing")
    norwegian = (folder / "mine.yaml").read_text().replace("target: de", "target: no")
    (folder / "no.yaml").write_text(norwegian)
    refused(call("train", "no.yaml"), "nor train.en and train.no")
    (folder / "no.yaml").write_text(norwegian.replace("target: no", "target: false"))
    refused(call("train", "no.yaml"), "data.target=false: YAML does not read this as text; put it")
    ratios = ("-s", "decode.min_length_ratio=3", "-s", "decode.max_length_ratio=1")
    refused(call(*mine, *ratios), "min_length_ratio=3 is more than max_length_ratio=1")


def test_columns_are_numbered_on_the_command_line_and_in_yaml(call, folder: Path) -> None:
    pairs = zip(GERMAN, ENGLISH, strict=True)
    (folder / "pairs.tsv").write_text("".join(f"7\t{one}\t{other}\n" for one, other in pairs))
    configure(folder)
    text = (folder / "mine.yaml").read_text().replace("source: en, target: de", "source: 3")
    (folder / "mine.yaml").write_text(text.replace(": train,", ": pairs.tsv,"))
    trained = call("train", "mine.yaml", "--data", ".", "--out", "run", "-s", "data.target=2")
    assert trained.code == 0, trained.err
    assert call("evaluate", "run", "--json").json["examples"] == 5


def test_a_package_that_a_score_needs_is_missed_before_training(
    call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(language: str) -> None:
        raise RuntimeError("requires extra dependencies")

    monkeypatch.setitem(MAKERS, "bleu", missing)
    configure(folder)
    japanese = ("-s", "data.target_language=ja", "-s", "train.metric=loss")
    refused(call("train", "mine.yaml", "--data", ".", *japanese), "pip install 'sacrebleu[ja]'")
    assert not (folder / "runs").exists()


def test_what_is_cut_or_left_out_is_said(call, folder: Path) -> None:
    pairs = zip(ENGLISH * 20, GERMAN * 20, strict=True)
    lines = [f"{n} {one}\t{other}\n" for n, (one, other) in enumerate(pairs)]
    long = [f"{n} {'A ' * 99}\tEin\n" for n in range(9)]  # of all three parts
    (folder / "pairs.tsv").write_text("".join([*lines, "A man alone\n", *long]))
    configure(folder)
    text = (folder / "mine.yaml").read_text().replace(": train,", ": pairs.tsv,")
    (folder / "mine.yaml").write_text(text.replace("source: en, target: de", "held_out: 0.2"))
    refused(call("train", "mine.yaml", "--data", "."), "pairs.tsv:101: 1 column where 2")
    skipping = call("train", "mine.yaml", "--data", ".", "--out", "run", "--on-bad-line", "skip")
    left_out = "1 where there is 1 column, not 2 (tab-separated: source, target)"
    assert skipping.err.count(left_out) == 1
    assert "data.target_language is not given" in skipping.err
    assert skipping.err.index(left_out) < skipping.err.index("valid: loss")
    scored = call("evaluate", "run", "--max-new-tokens", 2)
    assert left_out in scored.err
    assert "outputs were cut at max_new_tokens." in scored.err
    cut = call("predict", "run", "--max-new-tokens", 2, "--json", stdin="A dog runs.\n")
    assert "1 of 1 outputs were cut at max_new_tokens." in cut.err
    assert cut.json["predictions"][0]["finished"] == [False]
