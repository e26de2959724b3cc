"""Files of pairs: read whole, or refused by file and line."""

from pathlib import Path

import pytest

from regard.config import Data
from regard.data.pairs import PairSource, decode_lines, measure
from regard.errors import UserError

WORDS = (measure("words"), measure("words"))


def source(path: Path, text: str | bytes, **options) -> PairSource:
    (path / "pairs.tsv").write_bytes(text.encode() if isinstance(text, str) else text)
    return PairSource("pairs.tsv", "train", Data(directory=str(path), **options), WORDS)


def test_a_pair_a_line(tmp_path: Path) -> None:
    assert source(tmp_path, "a b\tc\r\nd\te f\n").pairs() == [("a b", "c"), ("d", "e f")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nc\n", "pairs.tsv:2: 1 column where 2 are expected (tab-separated: source, target)"),
        ("a\tb\tc\n", "pairs.tsv:1: 3 columns where 2"),
        ("a\tb\n\tc\n", "pairs.tsv:2: the source is empty"),
        ("a\tb\nc\t \n", "pairs.tsv:2: the target is empty"),
        ("a a a a\tb\n", "pairs.tsv:1: the source has 4 tokens where data.max_length=3"),
        (b"a\tb\nc\t\xff\n", "pairs.tsv:2: not UTF-8"),
        ("", "there is no usable line"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, text, message: str) -> None:
    with pytest.raises(UserError) as error:
        source(tmp_path, text, max_length=3).pairs()
    assert message in str(error.value)


def test_bad_lines_are_skipped_and_counted_when_asked(tmp_path: Path) -> None:
    pairs = source(tmp_path, "a\tb\nc\nd\te\n\tf\n", on_bad_line="skip")
    assert pairs.pairs() == [("a", "b"), ("d", "e")]
    assert pairs.skipped == 2


def test_neither_a_generator_nor_a_file(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"neither a generator \(sort, copy, reverse, .*\) nor a file"
    ):
        PairSource("nothing.tsv", "train", Data(directory=str(tmp_path)), WORDS).pairs()


def test_a_generator_needs_room_for_its_shortest_sequence() -> None:
    with pytest.raises(UserError, match="max_length=1 is less than the 2 digits"):
        PairSource("sort", "train", Data(max_length=1), WORDS).pairs()


def test_no_line_is_gained_or_lost() -> None:
    assert decode_lines(b"a\n\nb", name="x") == ["a", "", "b"]
    assert decode_lines("a\u2028b\x0cc\n".encode(), name="x") == ["a\u2028b\x0cc"]
    assert decode_lines(b"", name="x") == []
    assert decode_lines(b"\xef\xbb\xbf3 1\n", name="x") == ["3 1"]
