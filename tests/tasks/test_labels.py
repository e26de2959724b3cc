"""Labels: names that look the same are one class, and a run keeps those that it has."""

import json
import unicodedata

import pytest

from regard.tasks.labels import Labels

ONE, TWO = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def learned(names: list[str], normalize: str = "nfc") -> Labels:
    return Labels.learn(names, normalize=normalize, path="x", key="data.train")


def test_names_that_look_the_same_are_one_class() -> None:
    assert ONE != TWO
    labels = learned([ONE, TWO, "tea"])
    assert labels.names == [ONE, "tea"]
    assert labels.number(ONE) == labels.number(TWO) == 0
    assert labels.known_name(TWO) == ONE
    assert labels.known_name("milk") == "milk"
    assert labels.number("milk") is None


@pytest.mark.parametrize(("normalize", "count"), [("none", 4), ("nfc", 3), ("nfkc", 2)])
def test_names_are_normalized_as_texts_are(normalize: str, count: int) -> None:
    assert len(learned([ONE, TWO, "①", "1"], normalize)) == count


def test_a_run_that_has_both_keeps_both() -> None:
    labels = Labels.read({"labels.json": json.dumps([ONE, TWO])}, "labels.json", normalize="nfc")
    assert labels.names == [ONE, TWO]
    assert (labels.number(ONE), labels.number(TWO)) == (0, 1)
