"""Windows of long contexts, the spans in them, and how answers are scored."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.rows import AnswerSpan
from regard.data.tokenizer import Located, Tokenizer
from regard.data.windows import windows_of, without_spaces
from regard.metrics.answers import answer_em, answer_f1, normal_answer
from regard.models import SpanLogits
from regard.tasks.answering import Candidate, ranked
from regard.tasks.span_batch import best_spans, collate_spans, span_sums

WORDS = st.lists(st.sampled_from(["ab", "c", "déf", "狗", "x,y"]), min_size=1, max_size=12)
TOKENIZER = Tokenizer.train(["a b c d e f"], vocab_size=20)


@given(st.integers(1, 40), st.integers(0, 6), st.integers(4, 12), st.integers(0, 8))
def test_windows_hold_every_token_in_order_and_have_a_stride_in_common(
    length: int, question: int, longest: int, stride: int
) -> None:
    context = Located(list(range(10, 10 + length)), [(n, n + 1) for n in range(length)])
    windows = windows_of([5] * question, context, TOKENIZER.special, longest=longest, stride=stride)
    room = longest - question - 3
    if not windows:
        assert room <= stride
        return
    for window in windows:
        assert len(window.ids) <= longest or length <= 0
        assert window.ids[: window.begin] == [1, *[5] * question, 2]
        assert window.ids[-1] == 2
        tokens = [10 + begin for begin, _ in window.offsets]
        assert window.ids[window.begin : window.end] == tokens
    places = [[begin for begin, _ in window.offsets] for window in windows]
    assert sorted(set(itertools.chain(*places))) == list(range(length))
    for before, after in itertools.pairwise(places):
        assert len(set(before) & set(after)) == stride


@given(WORDS, st.data())
def test_an_answer_has_its_exact_characters_back(words: list[str], data: st.DataObject) -> None:
    context = "  ".join(words)
    tokenizer = Tokenizer.train([context], vocab_size=80, kind="bpe")
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    begins = [sum(len(word) + 2 for word in words[:n]) for n in range(len(words))]
    answer = AnswerSpan(context[begins[first] : begins[last] + len(words[last])], begins[first])
    (located,) = tokenizer.locate([context])
    (window,) = windows_of([], located, tokenizer.special, longest=200, stride=9)
    place = window.place_of(answer)
    assert place is not None
    begin, end = without_spaces(context, *window.characters(*place))
    assert (begin, context[begin:end]) == (answer.start, answer.text)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 5), st.integers(1, 6))
def test_the_best_spans_are_those_of_brute_force(
    seed: int, length: int, longest: int, count: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = SpanLogits(*torch.randn(2, 2, length, generator=generator))
    begins = [int(torch.randint(length, (), generator=generator)) for _ in range(2)]
    ends = [length, max(begins[1] + 1, length - 1)]
    found = best_spans(logits, begins, ends, longest=longest, count=count)
    for row, spans in enumerate(found):
        every = sorted(
            (
                (float(logits.start[row, a] + logits.end[row, b]), a, b)
                for a in range(begins[row], ends[row])
                for b in range(a, min(a + longest, ends[row]))
            ),
            reverse=True,
        )
        assert [(span.first, span.last) for span in spans] == [(a, b) for _, a, b in every[:count]]
        assert [span.score for span in spans] == pytest.approx([s for s, _, _ in every[:count]])


def test_padding_changes_no_loss() -> None:
    torch.manual_seed(0)
    rows, targets = [[1, 5, 2, 6, 7, 2], [1, 5, 2, 6, 2]], [[3, 4], [3, 3]]
    logits = SpanLogits(*torch.randn(2, 2, 6))
    together = span_sums(logits, collate_spans(rows, targets))["targets"]
    alone = [
        span_sums(
            SpanLogits(*(part[n, None, : len(row)] for part in logits)),
            collate_spans([row], [target]),
        )["targets"]
        for n, (row, target) in enumerate(zip(rows, targets, strict=True))
    ]
    torch.testing.assert_close(together.loss, alone[0].loss + alone[1].loss)
    assert int(together.correct) == sum(int(part.correct) for part in alone)
    segments = collate_spans(rows, targets).segments.tolist()
    assert segments == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]]


def test_no_answer_wins_where_its_score_is_higher_by_the_threshold() -> None:
    candidates = [Candidate(2.0, 4, 6), Candidate(1.0, 0, 2), Candidate(0.5, 4, 6)]
    texts = {
        threshold: [a.text for a in ranked("to be or", candidates, null=3.0, threshold=threshold)]
        for threshold in (0.0, 1.5, 9.0)
    }
    assert texts == {0.0: ["", "e ", "to"], 1.5: ["e ", "", "to"], 9.0: ["e ", "to", ""]}
    answers = ranked("to be or", candidates, null=None, threshold=0.0)
    assert [answer.text for answer in answers] == ["e ", "to"]
    assert sum(answer.probability for answer in answers) == pytest.approx(1)


@pytest.mark.parametrize(
    ("answer", "right", "em", "f1"),
    [
        ("The Beatles!", ["beatles"], 1, 1),
        ("an U.S. state", ["US   State"], 1, 1),
        ("red dog", ["the big red dog"], 0, 0.8),
        ("red red dog", ["red dog dog"], 0, 2 / 3),
        ("cat", ["dog", "a cat"], 1, 1),
        ("cat", ["dog"], 0, 0),
        ("", [], 1, 1),
        ("", ["the"], 1, 1),
        ("cat", [], 0, 0),
        ("", ["cat"], 0, 0),
        ("theory", ["ory"], 0, 0),
        ("well-known", ["wellknown"], 1, 1),
    ],
)
def test_answers_are_scored_as_by_the_official_script(answer, right, em, f1) -> None:
    assert answer_em(answer, right) == em
    assert answer_f1(answer, right) == pytest.approx(f1)


def test_articles_are_taken_away_after_punctuation() -> None:
    assert normal_answer("The 'a-b' of  an A. Theatre") == "ab of theatre"
