"""Files of pairs in every format: read whole, or refused by file and line."""

import gzip
import json
from pathlib import Path

import pytest

from regard.config import Data
from regard.data.lines import text_lines
from regard.data.row_source import RowSource
from regard.data.tally import Tally
from regard.system.errors import UserError

PAIRS = [('A man, "here".', "Ein Mann."), ("two dogs", "zwei Hunde"), ("é 漢", "ß")]


def source(folder: Path, name: str = "pairs.tsv", **options) -> RowSource:
    return RowSource(name, "train", Data(directory=str(folder), **options))


def read(source: RowSource, tally: Tally | None = None) -> list[tuple[str, str]]:
    return [(row.source, row.target) for row in source.rows(tally=tally)]


def write(path: Path, text: str | bytes) -> None:
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def of_lines(side: int) -> str:
    return "".join(f"{pair[side]}\n" for pair in PAIRS)


def csv_field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


FILES: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "parallel": (
        {"pairs.en": of_lines(0), "pairs.de": of_lines(1)},
        "pairs",
        {"source": "en", "target": "de"},
    ),
    "parallel, compressed": (
        {"pairs.en.gz": of_lines(0), "pairs.de.gz": of_lines(1)},
        "pairs",
        {"source": "en", "target": "de"},
    ),
    "tsv": ({"pairs.tsv": "".join(f"{s}\t{t}\n" for s, t in PAIRS)}, "pairs.tsv", {}),
    "tsv, found compressed": (
        {"pairs.tsv.gz": "".join(f"{s}\t{t}\n" for s, t in PAIRS)},
        "pairs.tsv",
        {},
    ),
    "tsv by number": (
        {"pairs.txt": "".join(f"{t}\t{s}\tCC-BY\n" for s, t in PAIRS)},
        "pairs.txt",
        {"source": "2", "target": "1"},
    ),
    "tsv by name": (
        {"pairs.tsv": "de\tid\ten\n" + "".join(f"{t}\t7\t{s}\n" for s, t in PAIRS)},
        "pairs.tsv",
        {"source": "en", "target": "de"},
    ),
    "csv by name": (
        {
            "pairs.csv": "de,en\r\n"
            + "".join(f"{csv_field(t)},{csv_field(s)}\r\n" for s, t in PAIRS)
        },
        "pairs.csv",
        {"source": "en", "target": "de"},
    ),
    "jsonl": (
        {"pairs.jsonl": "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in PAIRS)},
        "pairs.jsonl",
        {},
    ),
    "jsonl by name": (
        {"pairs.jsonl.gz": "".join(json.dumps({"b": t, "a": s}) + "\n" for s, t in PAIRS)},
        "pairs.jsonl",
        {"source": "a", "target": "b"},
    ),
}


@pytest.mark.parametrize("format", FILES)
def test_every_format_gives_the_same_pairs(tmp_path: Path, format: str) -> None:
    files, name, columns = FILES[format]
    for file, text in files.items():
        write(tmp_path / file, text)
    pairs = source(tmp_path, name, **columns)
    assert read(pairs) == PAIRS
    assert read(pairs) == PAIRS  # once more from the start
    before = pairs.fingerprint
    write(next(tmp_path.iterdir()), "another\tone\n")
    assert source(tmp_path, name, **columns).fingerprint != before


def test_parquet_and_dataset_folders(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict(
        {"en": [s for s, _ in PAIRS], "de": [t for _, t in PAIRS], "n": [1, 2, 3]}
    )
    table.to_parquet(tmp_path / "pairs.parquet")
    table.save_to_disk(tmp_path / "folder")
    columns = {"source": "en", "target": "de"}
    for name in ("pairs.parquet", "folder"):
        assert read(source(tmp_path, name, **columns)) == PAIRS
        with pytest.raises(UserError, match=r"no column data\.target=fr; it has en, de, n"):
            read(source(tmp_path, name, source="en", target="fr"))
        assert read(source(tmp_path, name, source="1", target="2")) == PAIRS
    nested = datasets.Dataset.from_dict({"translation": [{"en": s, "de": t} for s, t in PAIRS]})
    nested.to_parquet(tmp_path / "nested.parquet")
    inner = {"source": "translation.en", "target": "translation.de"}
    assert read(source(tmp_path, "nested.parquet", **inner)) == PAIRS
    datasets.DatasetDict({"one": table}).save_to_disk(tmp_path / "several")
    with pytest.raises(UserError, match=r"several splits, one; name one, as in several/one"):
        read(source(tmp_path, "several", **columns))
    assert read(source(tmp_path, "several/one", **columns)) == PAIRS
    write(tmp_path / "broken.parquet", "no")
    with pytest.raises(UserError, match="is not a Parquet file"):
        read(source(tmp_path, "broken.parquet", **columns))
    as_bytes = {"en": [s.encode() for s, _ in PAIRS], "de": [t.encode() for _, t in PAIRS]}
    datasets.Dataset.from_dict(as_bytes).to_parquet(tmp_path / "bytes.parquet")
    assert read(source(tmp_path, "bytes.parquet", **columns)) == PAIRS
    datasets.Dataset.from_dict({"en": [b"\xff"], "de": [b"b"]}).to_parquet(tmp_path / "no.parquet")
    with pytest.raises(UserError, match=r"no\.parquet:1: not UTF-8"):
        read(source(tmp_path, "no.parquet", **columns))


def test_what_is_damaged_within_is_named(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"en": [f"sentence {n}" for n in range(99)]})
    table = table.add_column("de", table["en"])
    table.to_parquet(tmp_path / "pairs.parquet")
    table.save_to_disk(tmp_path / "folder")
    (arrow,) = (tmp_path / "folder").glob("*.arrow")
    for name, file, start in (("pairs.parquet", "pairs.parquet", 50), ("folder", arrow, 600)):
        whole = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(whole[:start] + b"\xff" * 200 + whole[start + 200 :])
        with pytest.raises(UserError, match=rf"{name} is damaged after row \d+: .*[^.]\.$"):
            read(source(tmp_path, name, source="en", target="de"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "pairs.tsv",
            "a\tb\nc\n",
            "pairs.tsv:2: 1 column where 2 are expected (tab-separated: source, target)",
        ),
        ("pairs.tsv", "a\tb\tc\n", "pairs.tsv:1: 3 columns where 2"),
        ("pairs.tsv", "a\tb\n\tc\n", "pairs.tsv:2: the source is empty"),
        ("pairs.tsv", "a\tb\nc\t \n", "pairs.tsv:2: the target is empty"),
        ("pairs.tsv", b"a\tb\nc\t\xff\n", "pairs.tsv:2: not UTF-8"),
        ("pairs.csv", 'a,b\n"c\nd",e,f\n', "pairs.csv:2: 3 columns where 2"),
        ("pairs.csv", b"a,b\nc,\xff\n", "pairs.csv:2: not UTF-8"),
        ("pairs.jsonl", '{"source": "a", "target": "b"}\nno\n', "pairs.jsonl:2: not JSON"),
        ("pairs.jsonl", "[" * 200_000 + "\n", "pairs.jsonl:1: not JSON"),
        ("pairs.jsonl", b'{"source": "\xff", "target": "b"}\n', "pairs.jsonl:1: not UTF-8"),
        ("pairs.jsonl", '{"source": "a"}\n', "pairs.jsonl:1: no text under 'target'"),
        ("pairs.jsonl", "[]\n", "pairs.jsonl:1: not an object"),
        (
            "pairs.jsonl",
            '{"source": "a \\ud83d", "target": "b"}\n',
            "pairs.jsonl:1: not UTF-8",
        ),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, name, text, message: str) -> None:
    write(tmp_path / name, text)
    with pytest.raises(UserError) as error:
        read(source(tmp_path, name))
    assert message in str(error.value)
    assert "--on-bad-line skip" in str(error.value)


@pytest.mark.parametrize(
    ("english", "german", "message"),
    [
        ("a\nb\n", "c\n", "en:2: this line has no counterpart:"),
        ("a\n", "c\nd\ne\n", "de:2: this line has no counterpart:"),
        ("a\n\n", "b\nc\n", "en:2: the source is empty"),
        ("a\nb\n", "c\n  \n", "de:2: the target is empty"),
        ("a\n", "b\tc\n", "de:1: there is a tab in the target"),
        (b"a\n\xff\n", "b\nc\n", "en:2: not UTF-8"),
    ],
)
def test_parallel_files_that_do_not_match(tmp_path: Path, english, german, message: str) -> None:
    write(tmp_path / "pairs.en", english)
    write(tmp_path / "pairs.de", german)
    with pytest.raises(UserError) as error:
        read(source(tmp_path, "pairs", source="en", target="de"))
    assert f"pairs.{message}" in str(error.value)


def test_a_missing_partner_is_no_line_to_skip(tmp_path: Path) -> None:
    write(tmp_path / "pairs.en", "a\nb\n")
    write(tmp_path / "pairs.de", "c\n")
    with pytest.raises(UserError, match="has no counterpart"):
        read(source(tmp_path, "pairs", source="en", target="de", on_bad_line="skip"))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    write(tmp_path / "pairs.tsv", "en\tde\na\tb\n")
    with pytest.raises(UserError, match=r"no column data\.source='fr'; it has en, de \(its first"):
        read(source(tmp_path, source="fr", target="de"))
    with pytest.raises(UserError, match=r"no column data\.target='3'; it has 2 columns"):
        read(source(tmp_path, source="1", target="3"))


def test_a_stray_tab_in_the_first_line_is_the_fault_of_the_first_line(tmp_path: Path) -> None:
    write(tmp_path / "pairs.tsv", "a\ta\tb\n" + "c\td\n" * 9)
    with pytest.raises(UserError, match=r"pairs.tsv:1: 3 columns where 2"):
        read(source(tmp_path, source="1", target="2"))
    assert len(read(source(tmp_path, source="1", target="2", on_bad_line="skip"))) == 9


def test_a_folder_does_not_hide_parallel_text_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    write(tmp_path / "pairs.en", "a\n")
    write(tmp_path / "pairs.de", "b\n")
    assert read(source(tmp_path, "pairs", source="en", target="de")) == [("a", "b")]


def test_bad_lines_are_skipped_and_counted_by_reason(tmp_path: Path) -> None:
    write(tmp_path / "pairs.tsv", "a\tb\nc\nd\te\n\tf\n" + "x\n" * 6)
    pairs = source(tmp_path, on_bad_line="skip")
    tally = pairs.new_tally()
    assert read(pairs, tally) == [("a", "b"), ("d", "e")]
    assert tally.left_out == 8
    columns, empty = tally.reasons()
    assert columns.startswith("7 where there is 1 column, not 2 (tab-separated: source, target) (")
    assert columns.endswith("pairs.tsv:8, …)")
    assert empty.startswith("1 where the source is empty (")
    read(pairs)
    assert tally.left_out == 8  # not counted twice


def test_a_quote_that_is_never_closed_swallows_nothing(tmp_path: Path) -> None:
    write(tmp_path / "pairs.csv", 'a,b\nc,"d\ne,f\ng,h\n')
    with pytest.raises(
        UserError, match=r"pairs.csv:2: a quote is opened here and not closed by line 4"
    ):
        read(source(tmp_path, "pairs.csv", on_bad_line="skip"))
    write(tmp_path / "pairs.csv", "a,b\n" + 'c,"d\n' + "e" * 200_000 + "\ng,h\n")
    with pytest.raises(
        UserError, match=r"pairs.csv:2: a quote is opened here and not closed by line 3"
    ):
        read(source(tmp_path, "pairs.csv", on_bad_line="skip"))


def test_a_line_that_is_no_csv_is_left_out_and_no_other(tmp_path: Path) -> None:
    long = "e" * 200_000
    write(tmp_path / "pairs.csv", f'a,b\n"He said "hi".",c\nd,e\n{long},f\n"g\nh",i\n')
    pairs = source(tmp_path, "pairs.csv", on_bad_line="skip")
    tally = pairs.new_tally()
    assert read(pairs, tally) == [("a", "b"), ("d", "e"), ("g\nh", "i")]
    assert [place for places in tally.places.values() for place in places] == [
        "pairs.csv:2",
        "pairs.csv:4",
    ]
    with pytest.raises(UserError, match=r"pairs.csv:2: a quote within quotes is not written twice"):
        read(source(tmp_path, "pairs.csv"))
    write(tmp_path / "pairs.csv", 'a,"d"e\n' * 2)
    with pytest.raises(UserError, match=r"pairs.csv:1: a quote .* twice, and no line up to line 2"):
        read(source(tmp_path, "pairs.csv", source="1", target="2"))
    write(tmp_path / "pairs.csv", 'en,"d"e\na,b\n')
    with pytest.raises(UserError, match=r"pairs.csv:1: a quote .*; this line should name the"):
        read(source(tmp_path, "pairs.csv", source="en", target="de"))


def test_a_broken_or_missing_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv.gz").write_bytes(gzip.compress(b"a\tb\n" * 9999)[:-20])
    with pytest.raises(UserError, match=r"pairs.tsv.gz cannot be read"):
        read(source(tmp_path))
    with pytest.raises(UserError, match=r"neither a generator \(sort, .*\) nor a file: .*nothing "):
        read(source(tmp_path, "nothing"))
    with pytest.raises(UserError, match="is not a folder of a dataset"):
        read(source(tmp_path, "."))
    with pytest.raises(UserError, match="nor a file"):
        read(source(Path(), "."))
    with pytest.raises(UserError, match=r"nor .*nothing.en and .*nothing.de \(--data"):
        read(source(tmp_path, "nothing", source="en", target="de"))


@pytest.mark.parametrize("column", ["/", "a/b", "../x", "9" * 4000, "x" * 300], ids=lambda c: c[:4])
@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.csv", "pairs.jsonl", "nothing"])
def test_a_column_that_cannot_be_is_refused(tmp_path: Path, column: str, name: str) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    (tmp_path / "pairs.csv").write_text("a,b\n")
    (tmp_path / "pairs.jsonl").write_text('{"a": "b"}\n')
    with pytest.raises(UserError, match=r"has no column|nor a file|no text under"):
        read(source(tmp_path, name, source=column, target=column))


def test_a_generator_needs_room_for_its_shortest_sequence() -> None:
    with pytest.raises(UserError, match="max_length=1 is less than the 2 digits"):
        read(RowSource("sort", "train", Data(max_length=1)))


def test_no_line_is_gained_or_lost() -> None:
    def lines(raw: bytes) -> list[str]:
        return list(text_lines(raw.splitlines(keepends=True) if raw else [], name="x"))

    assert lines(b"a\n\nb") == ["a", "", "b"]
    assert lines("a\u2028b\n".encode()) == ["a\u2028b"]
    assert lines(b"") == []
    assert lines(b"\xef\xbb\xbf3 1\n") == ["3 1"]
    with pytest.raises(UserError, match="x:2: not UTF-8 text; save"):
        lines(b"a\n\xff\n")
