"""Schemes of tags: what they mark is what seqeval finds, and each becomes iob2 and back."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from regard.data.tag_schemes import (
    Entity,
    InvalidTagsError,
    are_iob2,
    entities,
    iob2,
    iob2_tags,
    may_follow,
)
from regard.data.tokenizer import Tokenizer
from regard.data.word_pieces import word_pieces
from regard.metrics.entities import EntityCounts

SCHEMES = ("iob1", "iob2", "bioes", "bmes")


@st.composite
def marked(draw: st.DrawFn) -> tuple[int, list[Entity]]:
    """A length, and entities that do not overlap."""
    found, place = [], 0
    for _ in range(draw(st.integers(0, 4))):
        start = place + draw(st.integers(0, 2))
        place = start + draw(st.integers(1, 3))
        found.append(Entity(draw(st.sampled_from(["PER", "LOC", "A-B"])), start, place))
    return place + draw(st.integers(0, 2)), found


def written(length: int, found: list[Entity], scheme: str) -> list[str]:
    """The tags of these entities, by the definition of the scheme."""
    tags = ["O"] * length
    for number, (type, start, end) in enumerate(found):
        for place in range(start, end):
            first, last = place == start, place == end - 1
            before = found[number - 1] if number else Entity("", -1, -1)
            letter = {
                "iob1": "B" if first and before.end == start and before.type == type else "I",
                "iob2": "B" if first else "I",
                "bioes": "S" if first and last else "B" if first else "E" if last else "I",
                "bmes": "S" if first and last else "B" if first else "E" if last else "M",
            }[scheme]
            tags[place] = f"{letter}-{type}"
    return tags


@given(marked())
def test_every_scheme_gives_the_same_entities(case: tuple[int, list[Entity]]) -> None:
    length, found = case
    for scheme in SCHEMES:
        tags = written(length, found, scheme)
        assert entities(tags, scheme) == found
        assert list(iob2(tags, scheme)) == written(length, found, "iob2")


@given(marked())
def test_entities_are_those_of_seqeval(case: tuple[int, list[Entity]]) -> None:
    tags = written(*case, "iob2")
    assert [(type, start, end + 1) for type, start, end in get_entities(tags)] == entities(
        tags, "iob2"
    )


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), min_size=1, max_size=5))
def test_a_sequence_of_iob2_is_valid_if_each_tag_may_follow(tags: list[str]) -> None:
    steps = itertools.pairwise([None, *tags])
    if all(may_follow(tag, before) for before, tag in steps):
        assert list(iob2(tags, "iob2")) == tags
    else:
        with pytest.raises(InvalidTagsError, match="begins an entity; in iob2 that is B-"):
            entities(tags, "iob2")


def test_tags_of_iob2_are_told_from_others() -> None:
    assert are_iob2(["O", "B-X", "I-X", "B-Y"])
    assert are_iob2(["B", "I"])
    for others in (["LABEL_0", "LABEL_1"], ["O", "I-X"], ["NN", "B-X"]):
        assert not are_iob2(others)


def test_tags_of_letters_alone_are_of_one_type_as_in_word_segmentation() -> None:
    assert entities(["B", "E", "S", "B", "M", "E"], "bmes") == [
        Entity("", 0, 2),
        Entity("", 2, 3),
        Entity("", 3, 6),
    ]
    assert iob2(["B", "E", "S"], "bmes") == ("B", "I", "B")
    assert iob2_tags(["B", "I"]) == ["O", "B", "I"]


@given(st.lists(st.tuples(marked(), marked()), min_size=1, max_size=4))
def test_metrics_are_those_of_seqeval(cases: list) -> None:
    import warnings

    from seqeval.metrics import classification_report, f1_score, precision_score, recall_score

    rows = []
    for (first, expected), (second, predicted) in cases:
        length = max(first, second, 1)
        rows.append((written(length, expected, "iob2"), written(length, predicted, "iob2")))
    counts = EntityCounts()
    for expected_tags, predicted_tags in rows:
        counts.add(entities(expected_tags, "iob2"), entities(predicted_tags, "iob2"))
    theirs = [list(side) for side in zip(*rows, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0/0 is 0
        ours = counts.metrics()
        assert ours["precision"] == pytest.approx(precision_score(*theirs))
        assert ours["recall"] == pytest.approx(recall_score(*theirs))
        assert ours["f1"] == pytest.approx(f1_score(*theirs))
        if not counts.expected | counts.predicted:
            return  # seqeval cannot make a report of nothing
        report = classification_report(*theirs, output_dict=True)
    for type, metrics in counts.by_type().items():
        assert metrics["f1"] == pytest.approx(report[type]["f1-score"])
        assert metrics["entities"] == report[type]["support"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "bytes", "words", "chars"])
def test_every_word_has_a_first_piece_and_a_sentence_the_tokens_of_its_text(kind: str) -> None:
    sentences = [["The", "dogs", "sleep,", "Ünïcode", "\u00a0x", "狗狗"], ["a"], ["dogs", "dogs"]]
    texts = [" ".join(words) for words in sentences]
    tokenizer = Tokenizer.train(texts * 3, vocab_size=400, kind=kind)
    for words, text, pieces in zip(
        sentences, texts, word_pieces(sentences, tokenizer, framed=False), strict=True
    ):
        assert pieces.ids == tokenizer.encode([text])[0]
        assert len(pieces.starts) == len(words)
        assert pieces.starts == sorted(set(pieces.starts))
    framed = word_pieces(sentences, tokenizer, framed=True)
    assert framed[1].ids[0] == tokenizer.start
    assert framed[1].ids[-1] == tokenizer.end
    assert framed[1].starts == [1]


def test_a_word_without_any_piece_is_unknown() -> None:
    from tokenizers import normalizers

    tokenizer = Tokenizer.train(["a b c"], vocab_size=20)
    tokenizer._backend.normalizer = normalizers.Replace("x", "")
    (pieces,) = word_pieces([["x", "a", "xx", "b", "x"]], tokenizer, framed=False)
    unknown = tokenizer.unknown
    a, b = (tokenizer.encode([text])[0][0] for text in "ab")
    assert pieces.ids == [unknown, a, unknown, b, unknown]
    assert pieces.starts == [0, 1, 2, 3, 4]


def test_the_text_of_a_special_token_is_no_special_token_where_it_is_located() -> None:
    tokenizer = Tokenizer.train(["a b c"], vocab_size=20)
    (located,) = tokenizer.locate(["a </s> b"])
    assert located.ids == tokenizer.encode(["a </s> b"])[0]
    assert located.offsets == [(0, 1), (2, 6), (7, 8)]
