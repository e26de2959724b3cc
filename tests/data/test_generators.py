"""Data that needs no file: right answers, and held-out sets that are never trained on."""

import datetime
import sys
from itertools import islice

import pytest

from regard.config import Data
from regard.data import dates, numbers, parity
from regard.data.generators import GENERATORS
from regard.system import memory
from regard.system.errors import UserError

EN_FR = Data(source="en", target="fr")


@pytest.mark.parametrize("name", ["parity", "dates", "numbers"])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_no_held_out_example_is_trained_on(name: str, split, all_held_out: None) -> None:
    generator, data = GENERATORS[name], EN_FR.model_copy(update={"epoch_size": 2_000})
    held_out = generator.held_out(data, split)
    trained = {
        source for epoch in (0, 1) for source, _ in generator.training(data, seed=1, epoch=epoch)
    }
    assert len(held_out) == {"valid": 500, "test": 2000}[split]
    assert not trained & {source for source, _ in held_out}


def test_a_day_is_held_out_in_every_language() -> None:
    days = {
        split: {day for _, day in islice(dates.stream(Data(), split, seed=1, epoch=0), 3_000)}
        for split in ("train", "test")
    }
    assert not days["train"] & days["test"]


def test_a_label_is_the_parity_of_the_sum() -> None:
    for source, label in islice(parity.stream(Data(), "train", seed=1, epoch=0), 200):
        values = [int(word) for word in source.split()]
        assert label == ("odd" if sum(values) % 2 else "even")
        assert 4 <= len(values) <= 20
        assert all(0 <= value < 200 for value in values)


def test_a_curriculum_begins_with_single_numbers_and_ends_with_all_lengths() -> None:
    data = Data(train="parity", curriculum=10)

    def lengths(epoch: int, split="train") -> set[int]:
        pairs = islice(parity.stream(data, split, seed=1, epoch=epoch), 600)
        return {len(source.split()) for source, _ in pairs}

    assert [max(lengths(epoch)) for epoch in range(10)] == list(range(2, 21, 2))
    assert lengths(10) == lengths(0, "test") == set(range(4, 21))
    long = islice(parity.long_stream(data, "test", seed=0, epoch=0), 20)
    assert {len(source.split()) for source, _ in long} == {200}


def test_the_same_examples_come_again_if_none_should_be_fresh() -> None:
    generator, data = GENERATORS["parity"], Data(fresh=False, epoch_size=50)
    again = [generator.training(data, seed=1, epoch=epoch) for epoch in (0, 7)]
    assert again[0] == again[1]
    fresh = generator.training(Data(epoch_size=50), seed=1, epoch=7)
    assert fresh != again[0]


def test_an_epoch_that_memory_cannot_hold_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    with pytest.raises(
        UserError,
        match=r"^data.epoch_size=100,000,000 examples would need about [\d.]+ GB of memory, and 1 "
        r"GB are available. Try a smaller data.epoch_size, or a shorter data.max_length.$",
    ):
        GENERATORS["sort"].training(Data(epoch_size=10**8), seed=1, epoch=0)
    monkeypatch.setattr(memory, "available_memory", lambda: None)  # where no one says
    assert len(GENERATORS["sort"].training(Data(epoch_size=101), seed=1, epoch=0)) == 101


@pytest.mark.parametrize(
    ("locale", "form", "text"),
    [
        ("en", "full", "Thursday, March 4, 2021"),
        ("de", "long", "4. März 2021"),
        ("zh", "medium", "2021年3月4日"),
        ("ru", "long", "4 марта 2021 г."),
    ],
)
def test_a_date_is_written_as_its_place_writes_it(locale: str, form: str, text: str) -> None:
    assert (locale, form) in dates.ways()
    assert dates.write(datetime.date(2021, 3, 4), locale, form) == text


def test_no_text_means_two_dates() -> None:
    """04/03/2021 would; and Croatian October is Polish November, but for a full stop."""
    meant: dict[str, datetime.date] = {}
    for number in range(365):
        day = datetime.date(2021, 1, 1) + datetime.timedelta(days=number)
        for locale, form in dates.ways():
            assert meant.setdefault(dates.write(day, locale, form).lower(), day) == day


def test_there_are_many_languages() -> None:
    assert len({locale for locale, _ in dates.ways()}) == len(dates.LOCALES) >= 30


def test_numbers_are_the_same_in_both_languages() -> None:
    result = dict(islice(numbers.stream(EN_FR, "train", seed=1, epoch=0), 3_000))
    known = {"forty-two": "quarante-deux", "eighty": "quatre-vingts", "one": "un", "ten": "dix"}
    seen = known.keys() & result.keys()
    assert seen
    assert all(result[source] == known[source] for source in seen)
    lengths = [len(source.split()) for source in result]
    assert min(lengths) == 1
    assert max(lengths) >= 8


@pytest.mark.parametrize(("source", "target"), [("", "fr"), ("en", "klingon")])
def test_an_unknown_language_is_refused_with_those_there_are(source: str, target: str) -> None:
    with pytest.raises(UserError, match="is not a language of num2words, which knows"):
        next(numbers.stream(Data(source=source, target=target), "train", seed=1, epoch=0))


def test_a_language_that_the_package_cannot_write_is_named() -> None:
    with pytest.raises(UserError, match=r"num2words has no words for .* in 'am'"):
        list(islice(numbers.stream(Data(source="am", target="fr"), "train", seed=1, epoch=0), 50))


@pytest.mark.parametrize(("name", "package"), [("dates", "babel"), ("numbers", "num2words")])
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    dates.ways.cache_clear()
    with pytest.raises(UserError, match=rf"package {package}.*pip install 'regard\[words\]'"):
        GENERATORS[name].held_out(EN_FR, "valid")


def test_parity_needs_room_for_its_shortest_sequence() -> None:
    with pytest.raises(UserError, match="max_length=3 is less than the 4 numbers"):
        parity.stream(Data(max_length=3), "train", seed=1, epoch=0)
