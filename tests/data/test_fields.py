"""Rows of any declared fields, out of every format: read whole, or refused by file and line."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.config import Data
from regard.data.row_source import RowSource
from regard.data.rows import AnswerSpan, Field, Row
from regard.system.errors import UserError

TEXT = (Field("text"),)
LABELLED = (Field("text"), Field("label", "label"))
MATCHED = (Field("text"), Field("text_pair"), Field("label", "label"))
RATED = (Field("text"), Field("text_pair"), Field("score", "number"))
TAGGED = (Field("words", "words"), Field("tags", "tags", of="words"))
ANSWERED = (Field("context"), Field("question"), Field("answers", "answers", of="context"))

CONTEXT = "Ada wrote the first program. Ada was a countess."
EXAMPLES: dict[tuple[Field, ...], list[tuple[Any, ...]]] = {
    TEXT: [("a text, with a comma",), ("é 漢",)],
    LABELLED: [("good", "1"), ("very bad", "negative")],
    MATCHED: [("a man", 'a "man"', "same"), ("a dog", "no dog", "other")],
    RATED: [("a man", "a person", 4.5), ("a dog", "no dog", -1.0)],
    TAGGED: [(("Ada", "lives", "here"), ("PER", "O", "O")), (("Paris",), ("LOC",))],
    ANSWERED: [
        (CONTEXT, "Who?", (AnswerSpan("Ada", 0),)),
        (CONTEXT, "What was she?", (AnswerSpan("a countess", 37),)),
    ],
}
"""What rows of each kind hold, in values that every format can write."""

Values = Sequence[tuple[Any, ...]]


def as_text(value: Any) -> str:
    """A value as a cell of a table."""
    if isinstance(value, tuple):
        return " ".join(part.text if isinstance(part, AnswerSpan) else part for part in value)
    return str(value)


def as_json(value: Any) -> Any:
    """A value as JSON and Parquet have it: answers as in SQuAD."""
    if isinstance(value, tuple) and isinstance(value[0], AnswerSpan):
        return {
            "text": [answer.text for answer in value],
            "answer_start": [answer.start for answer in value],
        }
    return list(value) if isinstance(value, tuple) else value


def mappings(fields: Sequence[Field], rows: Values) -> list[dict[str, Any]]:
    return [
        {field.name: as_json(value) for field, value in zip(fields, row, strict=True)}
        for row in rows
    ]


def parallel(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    for number, field in enumerate(fields):
        lines = "".join(as_text(row[number]) + "\n" for row in rows)
        (folder / f"rows.{field.name[-4:]}").write_text(lines, encoding="utf-8", newline="")
    return {"name": "rows", **{field.name: field.name[-4:] for field in fields}}


def parallel_compressed(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    columns = parallel(folder, fields, rows)
    for path in list(folder.iterdir()):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return columns


def tsv(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    lines = "".join("\t".join(map(as_text, row)) + "\n" for row in rows)
    (folder / "rows.tsv").write_text(lines, encoding="utf-8", newline="")
    return {"name": "rows.tsv"}


def tsv_by_number(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    """The fields in the opposite order, after a number."""
    lines = "".join("\t".join(["7", *map(as_text, reversed(row))]) + "\n" for row in rows)
    (folder / "rows.tsv").write_text(lines, encoding="utf-8", newline="")
    count = len(fields)
    return {
        "name": "rows.tsv",
        **{field.name: str(count + 1 - number) for number, field in enumerate(fields)},
    }


def csv_by_name(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["id", *(f"column of {field.name}" for field in fields)])
    writer.writerows([7, *map(as_text, row)] for row in rows)
    (folder / "rows.csv").write_text(text.getvalue(), encoding="utf-8", newline="")
    return {"name": "rows.csv", **{field.name: f"column of {field.name}" for field in fields}}


def json_lines(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    lines = "".join(json.dumps(row) + "\n" for row in mappings(fields, rows))
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return {"name": "rows.jsonl"}


def json_lines_of_texts(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    """Words, tags, numbers and answers as texts too."""
    names = [field.name for field in fields]
    lines = (json.dumps(dict(zip(names, map(as_text, row), strict=True))) for row in rows)
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return {"name": "rows.jsonl"}


def parquet(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(mappings(fields, rows)).to_parquet(folder / "rows.parquet")
    return {"name": "rows.parquet"}


def dataset_folder(folder: Path, fields: Sequence[Field], rows: Values) -> Mapping[str, str]:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(mappings(fields, rows)).save_to_disk(folder / "rows")
    return {"name": "rows"}


TABLES = [tsv, tsv_by_number, csv_by_name, json_lines_of_texts]
TEXT_FORMATS = [*TABLES, parallel, parallel_compressed]
MAPPINGS = [json_lines, parquet, dataset_folder]
Write = Callable[[Path, Sequence[Field], Values], Mapping[str, str]]


def source(folder: Path, fields: tuple[Field, ...], name: str, **options: Any) -> RowSource:
    return RowSource(name, "train", Data(directory=str(folder), **options), fields)


def read(folder: Path, fields: tuple[Field, ...], rows: Values, write: Write) -> list[Row]:
    """The rows as they are read back from a format, with the line of each checked."""
    read_back = list(source(folder, fields, **write(folder, fields, rows)).rows())
    header = 2 if write is csv_by_name else 1
    assert [row.line for row in read_back] == list(range(header, header + len(read_back)))
    assert all(row.file.parent == folder and row.file.exists() for row in read_back)
    return read_back


@pytest.mark.parametrize("write", [*TEXT_FORMATS, *MAPPINGS])
@pytest.mark.parametrize("fields", EXAMPLES, ids=lambda fields: "-".join(f.name for f in fields))
def test_every_format_gives_rows_of_the_declared_fields(tmp_path, fields, write: Write) -> None:
    rows = read(tmp_path, fields, EXAMPLES[fields], write)
    assert [tuple(row[field.name] for field in fields) for row in rows] == EXAMPLES[fields]
    assert [row.source for row in rows] == [values[0] for values in EXAMPLES[fields]]


WORD = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=6
).filter(lambda word: not word.isspace() and not word.startswith("\ufeff"))
SENTENCE = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def tagged(draw: Callable) -> tuple[Any, ...]:
    words = draw(st.lists(WORD, min_size=1, max_size=5))
    return tuple(words), tuple(draw(st.lists(WORD, min_size=len(words), max_size=len(words))))


@st.composite
def answered(draw: Callable) -> tuple[Any, ...]:
    """The answer is a part of the context, and begins where it first occurs."""
    context, question = draw(SENTENCE), draw(SENTENCE)
    begin = draw(st.integers(0, len(context) - 1))
    end = draw(st.integers(begin + 1, len(context)))
    text = context[begin:end]
    text = context if text.isspace() else text
    return context, question, (AnswerSpan(text, context.index(text)),)


ROWS = {
    TEXT: st.tuples(SENTENCE),
    LABELLED: st.tuples(SENTENCE, WORD),
    RATED: st.tuples(SENTENCE, SENTENCE, NUMBER),
    TAGGED: tagged(),
    ANSWERED: answered(),
}


@pytest.mark.parametrize("write", [tsv, tsv_by_number, csv_by_name, parallel, json_lines])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_written_is_read_back(tmp_path_factory, write: Write, data) -> None:
    fields = data.draw(st.sampled_from(list(ROWS)))
    rows = data.draw(st.lists(ROWS[fields], min_size=1, max_size=5))
    read_back = read(tmp_path_factory.mktemp("rows"), fields, rows, write)
    assert [tuple(row[field.name] for field in fields) for row in read_back] == rows


FAULTS: list[tuple[tuple[Field, ...], tuple[Any, ...], str]] = [
    (TEXT, (" ",), "the text is empty"),
    (LABELLED, ("a", ""), "the label is empty"),
    (MATCHED, ("a", "", "b"), "the text_pair is empty"),
    (RATED, ("a", "b", ""), "the score is empty"),
    (RATED, ("a", "b", "4,5"), "the score is no number: '4,5'"),
    (RATED, ("a", "b", "nan"), "the score is no number: 'nan'"),
    (RATED, ("a", "b", "1_0"), "the score is no number: '1_0'"),
    (TAGGED, ((), ("O",)), "the words are empty"),
    (TAGGED, (("a", "b"), ()), "the tags are empty"),
    (TAGGED, (("a", "b", "c"), ("O", "O")), "2 tags where there are 3 words"),
    (ANSWERED, (CONTEXT, "", "Ada"), "the question is empty"),
    (ANSWERED, (CONTEXT, "Who?", ""), "the answers are empty"),
    (ANSWERED, (CONTEXT, "Who?", "Grace"), "the answer 'Grace' is not in its context"),
]


@pytest.mark.parametrize("write", [*TEXT_FORMATS, json_lines, parquet])
@pytest.mark.parametrize(("fields", "bad", "reason"), FAULTS)
def test_a_fault_has_its_file_line_and_reason(tmp_path, write: Write, fields, bad, reason) -> None:
    first, last = EXAMPLES[fields]
    rows = [tuple(map(as_text, row)) for row in (first, bad, last)]
    name = write(tmp_path, fields, rows)
    line = 3 if write is csv_by_name else 2
    with pytest.raises(UserError) as error:
        list(source(tmp_path, fields, **name).rows())
    files = {path.name for path in tmp_path.iterdir()}
    file, place, message = str(error.value).removeprefix(f"{tmp_path}/").split(":", 2)
    assert file in files
    assert int(place) == line
    assert message.strip().startswith(reason)
    skipping = source(tmp_path, fields, **name, on_bad_line="skip")
    tally = skipping.new_tally()
    assert len(list(skipping.rows(tally=tally))) == 2
    assert tally.left_out == 1


def test_a_fault_of_parallel_text_is_in_the_file_of_its_field(tmp_path: Path) -> None:
    rows = [("a", "b", "1"), ("a", "b", "x")]
    columns = parallel(tmp_path, RATED, rows)
    with pytest.raises(UserError, match=r"rows\.core:2: the score is no number: 'x'"):
        list(source(tmp_path, RATED, **columns).rows())
    (tmp_path / "rows.text").write_text("a\n")
    with pytest.raises(UserError, match=r"rows\.pair:2: .* no counterpart.* give all files"):
        list(source(tmp_path, RATED, **columns).rows())


@pytest.mark.parametrize("fields", EXAMPLES, ids=lambda fields: "-".join(f.name for f in fields))
def test_broken_utf_8_is_named_in_any_field(tmp_path: Path, fields) -> None:
    for number in range(len(fields)):
        cells = [as_text(value).encode() for value in EXAMPLES[fields][0]]
        cells[number] += b"\xff"
        texts = [cell.decode("latin-1") for cell in cells]
        as_object = json.dumps(
            dict(zip((field.name for field in fields), texts, strict=True)), ensure_ascii=False
        )
        lines = {
            "rows.tsv": b"\t".join(cells),
            "rows.csv": b",".join(b'"' + cell.replace(b'"', b'""') + b'"' for cell in cells),
            "rows.jsonl": as_object.encode("latin-1"),
        }
        for name, line in lines.items():
            (tmp_path / name).write_bytes(line + b"\n")
            with pytest.raises(UserError, match=rf"{name}:1: not UTF-8 text"):
                list(source(tmp_path, fields, name).rows())


@pytest.mark.parametrize(
    ("fields", "line", "reason"),
    [
        (TEXT, {"other": "a"}, "no text under 'text'"),
        (LABELLED, {"text": "a", "label": None}, "no label under 'label'"),
        (RATED, {"text": "a", "text_pair": "b"}, "no number under 'score'"),
        (RATED, {"text": "a", "text_pair": "b", "score": [1]}, "no number under 'score'"),
        (RATED, {"text": "a", "text_pair": "b", "score": True}, "the score is no number: 'True'"),
        (TAGGED, {"words": ["a"]}, "no tags under 'tags'"),
        (TAGGED, {"words": [], "tags": []}, "the words are empty"),
        (TAGGED, {"words": {"a": 1}, "tags": ["O"]}, "no words under 'words'"),
        (TAGGED, {"words": ["a", None], "tags": ["O", "O"]}, "no words under 'words'"),
        (TAGGED, {"words": ["a", " "], "tags": ["O", "O"]}, "number 2 of the words is empty"),
        (TAGGED, {"words": ["a", "\ud83d"], "tags": ["O", "O"]}, "not UTF-8"),
        (ANSWERED, {"context": "a b", "question": "q"}, "no answers under 'answers'"),
        (
            ANSWERED,
            {"context": "a b", "question": "q", "answers": {"answer_start": [0]}},
            "no answers under 'answers'",
        ),
        (
            ANSWERED,
            {"context": "a b", "question": "q", "answers": {"text": ["b"], "answer_start": [0]}},
            "the answer 'b' is not in its context at answer_start=0",
        ),
        (
            ANSWERED,
            {"context": "a b", "question": "q", "answers": [{"text": "b", "answer_start": -1}]},
            "the answer 'b' is not in its context at answer_start=-1",
        ),
        (
            ANSWERED,
            {"context": "a b", "question": "q", "answers": [{"text": "b", "answer_start": "2"}]},
            "the answer 'b' has answer_start='2', which is no whole number",
        ),
        (
            ANSWERED,
            {"context": "a b", "question": "q", "answers": {"text": ["b"], "answer_start": []}},
            "the answers have not as many answer_start as text",
        ),
    ],
)
def test_json_of_another_shape_is_a_fault(tmp_path: Path, fields, line, reason: str) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(UserError) as error:
        list(source(tmp_path, fields, "rows.jsonl").rows())
    assert f"rows.jsonl:1: {reason}" in str(error.value)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            {"text": ["Ada", "Ada"], "answer_start": [0, 29]},
            (AnswerSpan("Ada", 0), AnswerSpan("Ada", 29)),
        ),
        ([{"text": "Ada", "answer_start": 29}], (AnswerSpan("Ada", 29),)),
        ({"text": "Ada", "answer_start": 29}, (AnswerSpan("Ada", 29),)),
        ({"text": ["Ada"]}, (AnswerSpan("Ada", 0),)),
        (["Ada", "a countess"], (AnswerSpan("Ada", 0), AnswerSpan("a countess", 37))),
        ("Ada", (AnswerSpan("Ada", 0),)),
        ({"text": [], "answer_start": []}, ()),
        ([], ()),
    ],
)
def test_answers_in_every_shape_that_squad_has(tmp_path: Path, answers, expected) -> None:
    line = {"context": CONTEXT, "question": "Who?", "answers": answers}
    (tmp_path / "rows.jsonl").write_text(json.dumps(line) + "\n")
    (row,) = source(tmp_path, ANSWERED, "rows.jsonl").rows()
    assert row["answers"] == expected


def test_tags_may_be_numbers_and_words_may_hold_spaces_in_a_list(tmp_path: Path) -> None:
    line = {"tokens": ["New York", "10\u00a0000"], "ner_tags": [3, 0]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(line) + "\n")
    (row,) = source(tmp_path, TAGGED, "rows.jsonl", words="tokens", tags="ner_tags").rows()
    assert (row["words"], row["tags"]) == (("New York", "10\u00a0000"), ("3", "0"))


@pytest.mark.parametrize("write", [csv_by_name, parquet, dataset_folder])
def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path, write: Write) -> None:
    options = {**write(tmp_path, TAGGED, EXAMPLES[TAGGED]), "tags": "pos"}
    with pytest.raises(UserError, match=r"has no column data\.tags='?pos'?; it has .*tags"):
        list(source(tmp_path, TAGGED, **options).rows())


def test_a_table_without_given_columns_has_exactly_the_declared_fields(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("a\tb\n")
    with pytest.raises(
        UserError, match=r"2 columns where 3 are expected \(tab-separated: text, text_pair, score\)"
    ):
        list(source(tmp_path, RATED, "rows.tsv").rows())
    with pytest.raises(UserError, match=r"2 columns where 1 is expected \(tab-separated: text\)"):
        list(source(tmp_path, TEXT, "rows.tsv").rows())


def test_a_column_that_is_not_given_has_the_name_of_its_field(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("label\tsentence\n1\ta b\n")
    (row,) = source(tmp_path, LABELLED, "rows.tsv", text="sentence").rows()
    assert (row["text"], row["label"]) == ("a b", "1")


def test_rows_of_a_generator_are_pairs_and_nothing_else() -> None:
    (row, *_) = source(Path(), LABELLED, "parity").rows()
    assert row["label"] in ("odd", "even")
    assert (row.file, row.line) == (Path("parity"), 1)
    with pytest.raises(UserError, match=r"'sort' is a generator of pairs .* reads words, tags"):
        list(source(Path(), TAGGED, "sort").rows())


def test_one_file_is_split_by_its_words(tmp_path: Path) -> None:
    lines = "".join(f"word{n % 50} b\tO O\n" for n in range(100))
    (tmp_path / "rows.tsv").write_text(lines)
    options = dict.fromkeys(("train", "valid", "test"), "rows.tsv")
    data = Data(directory=str(tmp_path), held_out=0.2, **options)
    parts = [
        {row["words"] for row in RowSource("rows.tsv", split, data, TAGGED).rows()}
        for split in ("train", "valid", "test")
    ]
    assert sum(map(len, parts)) == 50
    assert all(parts)


def test_a_fault_is_counted_without_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("a b\tO\na\tO O\na\tO\n")
    tagged_rows = source(tmp_path, TAGGED, "rows.tsv", on_bad_line="skip")
    tally = tagged_rows.new_tally()
    assert len(list(tagged_rows.rows(tally=tally))) == 1
    assert tally.counts == {"there are not as many tags as words": 2}
