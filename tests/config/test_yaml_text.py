"""YAML is read as version 1.2 reads it, in a limited size, and a fault has its line."""

import math

import pytest

from regard.config.yaml_text import MOST_LEVELS, FaultyYAMLError, parse, write

READ = {
    "5": 5,
    "-5": -5,
    "0": 0,
    "1e-3": 0.001,
    "1.0e-05": 1e-5,
    ".5": 0.5,
    ".inf": math.inf,
    "true": True,
    "FALSE": False,
    "~": None,
    "": None,
    "010": "010",
    "0x1F": "0x1F",
    "1:30:00": "1:30:00",
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "2024-01-01": "2024-01-01",
    "'5'": "5",
    "[1, {a: b}]": [1, {"a": "b"}],
}


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_words_and_numbers_are_what_yaml_1_2_says(text: str, value: object) -> None:
    assert parse(text) == value
    assert type(parse(text)) is type(value)


@pytest.mark.parametrize("text", [*READ, "1e3", "=", "<<", "1_000", "é\n", "\udcff", "a: b"])
def test_a_text_that_is_written_is_read_as_the_same_text(text: str) -> None:
    assert parse(write({"key": text})) == {"key": text}


def nested(depth: int) -> str:
    """Ten aliases of ten aliases, so many times: a short text for very many values."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, depth)]
    return "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x, x]", *lines])


TOO_MANY = "more than 10,000 values, with what aliases stand for"
FAULTS = {
    nested(12): (4, TOO_MANY),
    "a: 1\nb: &b [1, *b]": (2, "an alias stands within what it stands for"),
    "[" * 50 + "]" * 50: (1, f"nested more than {MOST_LEVELS} levels deep"),
    "a: 1\na: 2": (2, "the key 'a' occurs twice"),
    "a: 1\n2: 3": (2, "'2' cannot be a key: write a word"),
    "? [a]\n: 1": (1, "a list or a section cannot be a key: write a word"),
    "a:\n  b: c: d": (2, "mapping values are not allowed here"),
    "a: 1\nb: [": (2, "expected the node content, but found '<stream end>'"),
    "a\nb\x07": (2, r"the character '\x07' is not allowed"),
    "a: 1\nb: !!int x": (2, "this cannot be read as int"),
    "a: " + "9" * 5000: (1, "this cannot be read as int"),
    "--- a\n--- b": (2, "expected a single document in the stream, but found another document"),
    "a: *b": (1, "found undefined alias 'b'"),
    "a: 1\n" * 400_000: (None, "it is longer than 1,000,000 characters"),
    "".join(f"a{n}: 1\n" for n in range(50_000)): (
        5001,
        "more than 10,000 values, with what aliases stand for",
    ),
}


@pytest.mark.parametrize("text", FAULTS, ids=lambda text: repr(text[:20]))
def test_a_fault_has_its_line_and_its_reason(text: str) -> None:
    with pytest.raises(FaultyYAMLError) as error:
        parse(text)
    assert (error.value.line, error.value.reason) == FAULTS[text]


def test_a_few_aliases_and_merged_keys_are_read() -> None:
    text = "small: &small {d_model: 8}\nmodel: {<<: *small, kind: gru}\nlist: [*small, *small]"
    assert parse(text)["model"] == {"d_model": 8, "kind": "gru"}
    assert parse(text)["list"] == [{"d_model": 8}] * 2
