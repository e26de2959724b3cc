"""Sentences of a text, and rows packed of them: nothing is lost, and no row has two documents."""

from hypothesis import given
from hypothesis import strategies as st

from regard.config import Data
from regard.data.examples import InMemory
from regard.data.sentence_rows import SentenceRows, packed
from regard.data.sentences import sentences
from regard.data.text_source import documents


def test_a_sentence_ends_after_its_mark_and_at_the_end_of_a_line() -> None:
    text = 'He came. "Who is it?" she asked! One line\nand 3.5 more ... Yes , it is .'
    assert list(sentences(text)) == [
        "He came.",
        '"Who is it?"',
        "she asked!",
        "One line",
        "and 3.5 more ...",
        "Yes , it is .",
    ]


def test_chinese_sentences_end_without_spaces() -> None:
    assert list(sentences("他来了。“你是谁？”她问！好的")) == [
        "他来了。",
        "“你是谁？”",
        "她问！",
        "好的",
    ]


def test_an_abbreviation_alone_is_no_sentence() -> None:
    assert list(sentences("Dr. Who came. Mr. X left.")) == ["Dr. Who came.", "Mr. X left."]


@given(st.text())
def test_sentences_keep_all_but_spaces(text: str) -> None:
    kept = "".join("".join(sentences(text)).split())
    assert kept == "".join(text.split())


def test_titles_begin_documents_and_headings_do_not() -> None:
    lines = ["", " = Hamlet = ", " text ", " = = Plot = = ", "more", "= B =", "x", "a = b = c"]
    texts = ["\n".join(piece.text.split()) for piece in documents(iter(lines), "titles")]
    assert texts == ["", "=\nHamlet\n=\ntext\n=\n=\nPlot\n=\n=\nmore", "=\nB\n=\nx\na\n=\nb\n=\nc"]
    assert Data(documents="titles").documents == "titles"


DOCUMENTS = st.lists(
    st.lists(st.lists(st.integers(5, 99), min_size=1, max_size=12), max_size=6), min_size=1
)


@given(DOCUMENTS, st.integers(2, 12))
def test_rows_are_whole_sentences_of_one_document_and_keep_every_token(written, room: int) -> None:
    longest = max(1, room // 2)
    stream = [part for text in written for part in [*((ids, False) for ids in text), ([], True)]]
    rows = list(packed(stream, room=room, longest=longest))
    assert [token for _, ids, _, _ in rows for token in ids] == [
        token for text in written for ids in text for token in ids
    ]
    assert all(0 < len(ids) <= room for _, ids, _, _ in rows)
    assert sum(len(end) for *_, end in rows) == sum(any(text) for text in written)
    for _, _, starts, end in rows:
        assert starts[0] == 0
        assert len(starts) > 1 or end or room < 3  # two sentences, unless the document ends


def test_a_row_knows_its_sentences_and_its_document() -> None:
    stream = [([1, 2], False), ([3], False), ([4, 5], True), ([6], True), ([7, 8], True)]
    rows = list(packed(stream, room=4, longest=2))
    read = SentenceRows(InMemory(*([row[side] for row in rows] for side in (1, 2, 3))))
    assert [read.row(n).sentences for n in range(4)] == [
        [[1, 2], [3]],
        [[4, 5]],
        [[6]],
        [[7, 8]],
    ]
    assert [read.row(n).ends_document for n in range(4)] == [False, True, True, True]
    assert [read.document(n) for n in range(4)] == [(0, 2), (0, 2), (2, 3), (3, 4)]
    assert (read.documents, read.pairs, len(read)) == (3, 1, 4)
