"""What is wrong with a configuration is one short sentence with the key and its value."""

from pathlib import Path

import pytest

from regard import config
from regard.system.errors import UserError
from tests.config.test_yaml_text import nested

DATA = "data: {train: sort, valid: sort, test: sort}\n"
TRAIN = "train: {steps: 2, batch_size: 3}\n"

SETTINGS = {
    "seed=010": "seed='010': a number that begins with 0 is octal to some and decimal to others",
    "seed=-007": "seed='-007': a number that begins with 0",
    "seed=1:30:00": "seed='1:30:00': a whole number in decimal digits is expected.",
    "seed=0x10": "seed='0x10': a whole number in decimal digits is expected.",
    "seed=2.5": "seed=2.5: a whole number in decimal digits is expected.",
    "seed=[1, 2]": "seed=[1, 2]: a whole number in decimal digits is expected.",
    f"seed={'9' * 5000}": "9999': it is too long for a number.",
    "train.lr=fast": "train.lr='fast': a number in decimal digits is expected.",
    "train.lr=nan": "train.lr='nan': it is not a finite number.",
    "decode.length_penalty=.nan": "decode.length_penalty=nan: it is not a finite number.",
    "train.weight_decay=inf": "train.weight_decay='inf': it is not a finite number.",
    "train.lr=-1": "train.lr=-1: it must be greater than 0.",
    "model.gated=maybe": "model.gated='maybe': true or false is expected.",
    "about.expected.bleu=x": "about.expected.bleu='x': a number in decimal digits is expected.",
    "about.expected.bleu=nan": "it is not a finite number.",
    "train.steps=true": "train.steps=true: a number is expected.",
    "data.train=a\0b": r"data.train='a\x00b': it has a NUL character in it.",
    f"data.source={'7' * 5000}": "it has 5,000 characters, where 4,096 is the most.",
    "model.kind=a\tb": r"model.kind='a\tb' is not one of transformer, gpt, bert, rnn, gru, lstm, "
    "cnn, bag.",
    "mo\r\ndel=3": r"unknown key 'mo\r\ndel'",
    "no\nequals": r"-s 'no\nequals': write key=value",
    "data={}": "-s 'data={}': data is a section: its keys are set one by one, as data.name=value.",
    "data=null": "data is a section",
    "train=": "train is a section",
    "schema_version=1.x": "schema_version='1.x' is no version of this file: it is a whole number",
    "schema_version=1.2.3": "schema_version='1.2.3' is no version",
    "schema_version=²": "schema_version='²' is no version",
    "schema_version=-1": "schema_version=-1 is no version",
    "schema_version=true": "schema_version=true is no version",
    "schema_version=[1]": "schema_version=[1] is no version",
    "schema_version=1.5": "schema_version=1.5 is no version",
    "schema_version=2.5": "made by a newer Regard (schema 2.5; this one reads up to 2).",
}


def refusal(recipe: str, *settings: str) -> str:
    with pytest.raises(UserError) as error:
        config.load(recipe, settings)
    sentence = str(error.value)
    assert sentence.isprintable()
    assert len(sentence) < 400
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: repr(setting[:30]))
def test_a_wrong_value_is_named_in_one_short_sentence(setting: str) -> None:
    assert SETTINGS[setting] in refusal("sort", setting)


FILES = {
    TRAIN: "mine.yaml: the key 'data.train' is missing: name a file or a generator",
    DATA: "mine.yaml: the key 'train' is missing: it says how to train",
    DATA + "train:\n": "mine.yaml: the section 'train' is empty: it says how to train, as in",
    "data:\n" + TRAIN: "mine.yaml: data is empty: put keys under it, or remove it.",
    DATA + TRAIN + "seed: 010": "mine.yaml: seed='010': a number that begins with 0",
    DATA + TRAIN + "seed: 1:30:00": "mine.yaml: seed='1:30:00': a whole number",
    DATA + TRAIN + "recipe: true": "recipe=true: YAML does not read this as text; put it in quotes",
    DATA + TRAIN + nested(20): "mine.yaml:6: not YAML: more than 10,000 values",
    DATA + TRAIN + "seed: [": "mine.yaml:3: not YAML: expected the node content",
    "just words": "mine.yaml holds no configuration: keys and values are expected.",
}


@pytest.mark.parametrize("text", FILES, ids=lambda text: repr(text[-20:]))
def test_a_faulty_file_is_refused_in_one_short_sentence(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(text)
    assert FILES[text] in refusal("mine.yaml")


def test_a_large_value_is_shortened_before_it_is_shown(tmp_path: Path) -> None:
    path = written(tmp_path, DATA + TRAIN + nested(3).replace("a2:", "seed:"))
    assert ": a whole number in decimal digits is expected." in refusal(str(path))


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_text_is_what_was_written(tmp_path: Path) -> None:
    names = {"no": "no", "010": "010", "2024-01-01": "2024-01-01", "1:30": "1:30", "7": "7"}
    for text, name in names.items():
        path = written(tmp_path, f"{DATA}{TRAIN}recipe: {text}")
        resolved = config.load(str(path))
        assert resolved.recipe == name
        again = config.read_yaml(written(tmp_path, config.dump(resolved)))
        assert config.validate(again, where="here") == resolved


@pytest.mark.parametrize("text", ["a #1.tsv", "no", "010", "&a b", "a: b", "[1]", "true", "1e3"])
def test_text_in_a_setting_needs_no_quotes(text: str) -> None:
    for setting in (text, f"'{text}'", f'"{text}"'):
        assert config.load("sort", [f"data.train={setting}"]).data.train == text


def test_an_empty_section_is_filled_by_settings(tmp_path: Path) -> None:
    path = written(tmp_path, DATA + "train:\n")
    settings = ["train.steps=3", "train.batch_size=2", "tokenizer.lowercase=yes"]
    resolved = config.load(str(path), [*settings, "model.tie_embeddings=on"])
    assert resolved.training.steps == 3
    assert resolved.tokenizer.lowercase
    assert resolved.model.tie_embeddings == "all"
