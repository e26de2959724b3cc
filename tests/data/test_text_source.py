"""Sources of running text: files, folders, rows, documents, and parts that are held out."""

import gzip
import itertools
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Data
from regard.data.text_source import PIECE, Piece, TextSource, documents
from regard.data.tokenizer import Tokenizer
from regard.system.errors import UserError
from regard.tasks.split_text import read_split


def source(folder: Path, name: str = "a.txt", split="train", **keys) -> TextSource:
    return TextSource(name, split, Data(directory=str(folder), train=name, **keys))


def texts(pieces) -> list[str]:
    """The documents, put together of their pieces."""
    whole, held = [], ""
    for piece in pieces:
        held += piece.text
        if piece.ends:
            whole.append(held)
            held = ""
    return [*whole, held] if held else whole


def test_a_file_keeps_its_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    assert texts(source(tmp_path).pieces()) == ["one", "", "two"]


def test_a_compressed_file_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    assert texts(source(tmp_path).pieces()) == ["one", "two"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("lines", ["a", "", "b", "", "", "---", "c", " d"]),
        ("paragraphs", ["a", "b", "---\nc\n d"]),
        ("files", ["a\n\nb\n\n\n---\nc\n d"]),
        ("---", ["a\n\nb\n\n", "c\n d"]),
    ],
)
def test_documents_are_divided_as_the_key_says(kind: str, expected: list[str]) -> None:
    lines = ["a", "", "b", "", "", "---", "c", " d"]
    assert texts(documents(iter(lines), kind)) == expected


@given(
    lines=st.lists(st.text(" ab\t", max_size=5).map(lambda text: text * 150), max_size=12),
    kind=st.sampled_from(["paragraphs", "files", "ab"]),
)
def test_pieces_are_short_end_after_a_line_and_are_the_whole_together(lines, kind) -> None:
    pieces = list(documents(iter(lines), kind))
    divides = {"paragraphs": lambda line: not line.strip(), "files": lambda line: False}
    divide = divides.get(kind, lambda line: line.strip() == "ab")
    expected, held = [], []
    for line in [*lines, None]:
        if line is None or divide(line):
            expected += ["\n".join(held)] if held else []
            held = []
        else:
            held.append(line)
    assert texts(pieces) == expected
    for piece, following in itertools.pairwise(pieces):
        if not piece.ends:
            assert len(piece.text) > PIECE
            assert piece.text.endswith("\n")
            assert following.text[:1].strip()


@pytest.mark.parametrize("kind", ["chars", "bytes"])
def test_pieces_have_the_tokens_of_the_whole(kind) -> None:
    lines = ["The cat  sat", "", "  on the", "mat.", "\tAnd", "", "", "slept; it's so"] * 120
    whole = "\n".join(lines)
    tokenizer = Tokenizer.train([whole], kind=kind, vocab_size=300, keep_spaces=True)
    pieces = list(documents(iter(lines), "files"))
    assert len(pieces) > 3
    (expected,) = tokenizer.encode([whole])
    assert [id for row in tokenizer.encode([p.text for p in pieces]) for id in row] == expected
    assert tokenizer.decode(expected) == whole


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "texts" / "in").mkdir(parents=True)
    (tmp_path / "texts" / "b.txt").write_text("two\n")
    (tmp_path / "texts" / "in" / "c.jsonl").write_text(json.dumps({"text": "three\nlines"}))
    (tmp_path / "texts" / "a.txt").write_text("one")
    (tmp_path / "texts" / "readme.md").write_text("not a text")
    folder = source(tmp_path, "texts")
    assert texts(folder.pieces()) == ["one", "two", "three\nlines"]
    assert folder.ignored == 1
    assert source(tmp_path, "texts/in").ignored == source(tmp_path, "texts/a.txt").ignored == 0
    before = source(tmp_path, "texts").fingerprint
    (tmp_path / "texts" / "b.txt").write_text("other\n")
    assert source(tmp_path, "texts").fingerprint != before


def test_rows_have_a_document_each(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "one"}\n{"body": "two"}\n{"none": 1}\n')
    rows = source(tmp_path, "a.jsonl", text="body", on_bad_line="skip")
    tally = rows.new_tally()
    assert texts(rows.pieces(tally)) == ["one", "two"]
    assert tally.left_out == 1
    with pytest.raises(UserError, match=r"a.jsonl:3: "):
        list(source(tmp_path, "a.jsonl", text="body").pieces())
    (tmp_path / "a.csv").write_text("label,text\n1,one\n0,two\n")
    assert texts(source(tmp_path, "a.csv", text="text").pieces()) == ["one", "two"]


def test_a_line_that_is_not_utf8_is_refused_or_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\ntwo\n")
    with pytest.raises(UserError, match=r"a.txt:2: not UTF-8 text; save the file as UTF-8"):
        list(source(tmp_path).pieces())
    skipping = source(tmp_path, on_bad_line="skip")
    tally = skipping.new_tally()
    assert texts(skipping.pieces(tally)) == ["one", "two"]
    assert tally.left_out == 1


@pytest.mark.parametrize("kind", ["lines", "files", "paragraphs"])
def test_the_last_part_of_a_text_is_held_out(tmp_path: Path, kind: str) -> None:
    lines = [f"line {number} of a text" + "\n" * (number % 5 == 0) for number in range(900)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    keys = {"held_out": 0.1, "valid": "a.txt", "test": "./a.txt", "documents": kind}
    parts = [
        list(source(tmp_path, split=split, **keys).pieces()) for split in ("train", "valid", "test")
    ]
    parts[2] = list(TextSource("./a.txt", "test", source(tmp_path, **keys).data).pieces())
    whole = list(source(tmp_path, documents=kind).pieces())
    assert texts([*parts[0], *parts[1]]) == texts(whole)
    assert parts[1] == parts[2]
    share = sum(p.characters for p in parts[1]) / sum(p.characters for p in whole)
    assert share == pytest.approx(0.1, abs=0.002)


@pytest.mark.parametrize(("text", "fault"), [("\n\n", "contains no text"), (None, "neither a")])
def test_no_text_is_refused(tmp_path: Path, text: str | None, fault: str) -> None:
    if text is not None:
        (tmp_path / "a.txt").write_text(text)
    with pytest.raises(UserError, match=fault):
        list(source(tmp_path).pieces())


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    with pytest.raises(UserError, match=r"holds no file that ends in .txt or .jsonl"):
        list(source(tmp_path, "texts").pieces())


def test_characters_and_bytes_count_the_end_of_a_document_as_one() -> None:
    assert (Piece("né", True).characters, Piece("né", True).bytes) == (3, 4)
    assert (Piece("né", False).characters, Piece("né", False).bytes) == (2, 3)


def test_kept_token_ids_are_those_of_the_text_and_are_found_again(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("ab\n\nba\n")
    tokenizer = Tokenizer.train(["ab"], kind="chars", vocab_size=10)
    first = read_split(source(tmp_path), tokenizer)
    a, b, end = *tokenizer.encode(["ab"])[0], tokenizer.end
    assert first.ids().tolist() == [a, b, end, end, b, a, end]
    again = read_split(source(tmp_path), tokenizer)
    assert again.ids().tolist() == first.ids().tolist()
    assert (again.tally.characters, again.tally.bytes, again.tally.tokens) == (7, 7, 7)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    read_split(source(tmp_path, documents="files"), tokenizer)
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize(("kind", "lines"), [("lines", 6_000), ("files", 16_000)])
def test_memory_does_not_grow_with_the_text(tmp_path: Path, monkeypatch, kind, lines) -> None:
    """Python's own allocations; benchmarks/memory.py measures whole processes, up to 1 GB."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    tokenizer = Tokenizer.train(["abcdefgh "], kind="chars", vocab_size=20)
    peaks = []
    for count in (lines, 3 * lines):
        (tmp_path / "a.txt").write_text("a bad cafe\n" * count)
        tracemalloc.start()
        text = read_split(source(tmp_path, documents=kind), tokenizer)
        assert len(text.ids()) == 11 * count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0] + 300_000
