"""Data that cannot be read as it stands is refused by file and line, and crashes nothing."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import Data
from regard.data.lines import text_lines
from regard.data.row_source import RowSource
from regard.data.text_source import TextSource
from regard.system.errors import UserError


def source(folder: Path, name: str, **options) -> RowSource:
    return RowSource(name, "train", Data(directory=str(folder), **options))


def read(source: RowSource) -> list[tuple[str, str]]:
    return [(row.source, row.target) for row in source.rows()]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.tsv", "a\tb\nc\td\n"),
        ("pairs.csv", "a,b\nc,d\n"),
        ("pairs.jsonl", '{"source": "a", "target": "b"}\n'),
    ],
)
def test_utf_16_without_a_mark_is_refused(tmp_path: Path, encoding, name, text) -> None:
    (tmp_path / name).write_bytes(text.encode(encoding))
    with pytest.raises(UserError, match=rf"{name}:1: not UTF-8 text: .* a NUL character .*UTF-16"):
        read(source(tmp_path, name))


def test_running_text_with_nuls_is_refused_by_line() -> None:
    with pytest.raises(UserError, match=r"x:2: not UTF-8 text: there is a NUL .*; save the"):
        list(text_lines([b"a\n", b"b\0\n"], name="x"))


def test_a_nul_that_json_spells_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"source": "a\\u0000", "target": "b"}\n')
    with pytest.raises(UserError, match=r"pairs.jsonl:1: not UTF-8 text: there is a NUL"):
        read(source(tmp_path, "pairs.jsonl"))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le"])
def test_a_header_in_another_encoding_is_called_so(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "pairs.csv").write_bytes("anglais,français\na,b\n".encode(encoding))
    with pytest.raises(UserError, match=r"pairs\.csv:1: not UTF-8 text.*; save the file as UTF-8"):
        read(source(tmp_path, "pairs.csv", source="anglais", target="français"))


def test_a_header_of_which_only_other_columns_are_in_another_encoding_is_read(tmp_path) -> None:
    (tmp_path / "pairs.csv").write_bytes("a,b,café\n1,2,3\n".encode("latin-1"))
    assert read(source(tmp_path, "pairs.csv", source="a", target="b")) == [("1", "2")]


@pytest.mark.parametrize("kind", [RowSource, TextSource])
def test_a_pipe_is_refused_because_it_cannot_be_read_twice(kind) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"a\tb\n")
        os.close(writing)
        data = kind(f"/dev/fd/{reading}", "train", Data())
        with pytest.raises(UserError, match=rf"data.train='/dev/fd/{reading}'.* be read twice"):
            list(data.rows() if kind is RowSource else data.pieces())
    finally:
        os.close(reading)


def test_one_side_of_parallel_text_may_be_no_pipe_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pairs.en")
    (tmp_path / "pairs.de").write_text("a\n")
    with pytest.raises(UserError, match=r"pairs.en is a pipe or a device"):
        read(source(tmp_path, "pairs", source="en", target="de"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    datasets = pytest.importorskip("datasets")
    words = [f"sentence {n}" for n in range(2500)]  # more than one batch
    table = datasets.Dataset.from_dict({"source": words, "target": words})
    table.save_to_disk(tmp_path / "folder")
    return tmp_path / "folder"


@pytest.mark.parametrize(
    "state",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"_data_files": 3}',
        '{"_data_files": [{"filename": 3}]}',
        '{"_data_files": [{"filename": "../x.arrow"}]}',
        "\udcff",
        "[" * 100_000,
    ],
)
def test_a_damaged_list_of_files_is_one_sentence(folder: Path, state: str) -> None:
    (folder / "state.json").write_bytes(state.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=r"state.json is damaged: it does not list the files"):
        read(source(folder.parent, "folder"))


def test_what_else_a_folder_tells_about_itself_is_not_needed(folder: Path) -> None:
    (folder / "dataset_info.json").write_text("{")
    assert len(read(source(folder.parent, "folder"))) == 2500


def test_a_folder_whose_file_is_gone_or_cut_is_damaged(folder: Path) -> None:
    (arrow,) = folder.glob("*.arrow")
    whole = arrow.read_bytes()
    for content in (whole[:-8], whole[: len(whole) // 2], b"", b"no"):
        arrow.write_bytes(content)
        with pytest.raises(UserError, match=r"folder is damaged after row 0: the end .* missing"):
            read(source(folder.parent, "folder"))
    arrow.unlink()
    with pytest.raises(UserError, match=r"folder is damaged after row 0: .*No such file"):
        read(source(folder.parent, "folder"))


def test_a_stream_that_seems_to_end_early_is_damaged(folder: Path) -> None:
    """The length of the second batch reads 0, which is how a stream ends."""
    (arrow,) = folder.glob("*.arrow")
    whole = arrow.read_bytes()
    places = [n for n in range(0, len(whole) - 8, 8) if whole[n : n + 4] == b"\xff" * 4]
    arrow.write_bytes(whole[: places[2] + 4] + bytes(4) + whole[places[2] + 8 :])
    with pytest.raises(UserError, match=r"folder is damaged after row 1,000: .* after its end"):
        read(source(folder.parent, "folder"))


FLIPS = 40
"""How many single bits are flipped in each file; each in a copy of its own."""
PROGRAM = """
import sys
from pathlib import Path
from regard.config import Data
from regard.data.row_source import RowSource
from regard.system.errors import UserError
folder, file = Path(sys.argv[1]), Path(sys.argv[2])
whole = file.read_bytes()
for bit in map(int, sys.argv[3:]):
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    file.write_bytes(flipped)
    rows = RowSource(folder.name, "train", Data(directory=str(folder.parent), on_bad_line="skip"))
    try:
        tally = rows.new_tally()
        count = sum(1 for _ in rows.rows(tally=tally)) + tally.left_out
        assert count == 2500, (bit, count)
    except UserError as error:
        assert "\\n" not in str(error), (bit, str(error))
"""


@pytest.mark.parametrize("what", ["folder", "pairs.parquet"])
def test_one_flipped_bit_ends_in_a_sentence_or_in_another_text(folder: Path, what: str) -> None:
    """Never in a crash, which would end this process too, nor in lost rows."""
    import datasets

    path = folder.parent / what
    if what == "folder":
        (file,) = folder.glob("*.arrow")
    else:
        file = path
        datasets.load_from_disk(str(folder)).to_parquet(path)
    size = 8 * file.stat().st_size
    choice = random.Random(0)
    # Half of them where the structure is: at both ends of the file.
    ends = [*range(8 * 1500), *range(size - 8 * 1500, size)]
    bits = [choice.randrange(size) for _ in range(FLIPS)] + choice.sample(ends, FLIPS)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, file, *map(str, bits)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert result.returncode == 0, result.stderr


def test_json_of_another_shape_has_a_reason_that_can_be_counted(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_bytes(
        b'no\n[]\n\xff\n{"source": "a"}\n' + json.dumps({"source": "a", "target": "b"}).encode()
    )
    pairs = source(tmp_path, "pairs.jsonl", on_bad_line="skip")
    tally = pairs.new_tally()
    assert len(list(pairs.rows(tally=tally))) == 1
    assert [reason.partition(" (")[0] for reason in tally.reasons()] == [
        "1 where the line is not JSON",
        "1 where the line is not an object with keys and values",
        "1 where the line is not UTF-8 text",
        "1 where there is no text under 'target'",
    ]
