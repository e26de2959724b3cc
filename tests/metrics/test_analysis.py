"""Where translations are weak: counted by hand."""

import pytest

from regard.metrics.analysis import analyse
from regard.metrics.output import Output

SENTENCES = [
    Output("a dog", "ein Hund", "ein Hund"),
    Output("the big dog runs", "der große Hund rennt", "der big Hund rennt"),
    Output("he said yes and no and", "x y z a b c", "x y z x y z x y z"),
    Output("nothing came of this one here", "daraus wurde leider nichts mehr", ""),
]


def test_shares_and_ratios_by_hand() -> None:
    analysis = analyse(SENTENCES, languages=("en", "de"), bins=2, worst=2)
    assert analysis.length_ratio == pytest.approx((2 + 4 + 9 + 0) / (2 + 4 + 6 + 5))
    assert analysis.repetition_rate == 1 / 4
    assert analysis.copy_rate == pytest.approx(1 / 15)  # "big"
    assert analysis.empty == 1
    assert [one.output for _, one in analysis.worst] == ["", "x y z x y z x y z"]
    assert [(one.words, one.sentences) for one in analysis.by_length] == [("2–4", 2), ("6–6", 2)]
    assert analysis.by_length[0].bleu > analysis.by_length[1].bleu
    assert analysis.by_length[0].length_ratio == 1


def test_a_reference_may_repeat_itself_and_copy() -> None:
    same = "a b c a b c"
    analysis = analyse([Output(same, same, same)], languages=("", ""))
    assert (analysis.repetition_rate, analysis.copy_rate, analysis.length_ratio) == (0, 0, 1)


def test_words_of_chinese_are_characters() -> None:
    analysis = analyse([Output("I know", "我知道了", "我知")], languages=("en", "zh"))
    assert analysis.length_ratio == 0.5


def test_sentences_of_one_length_stay_together() -> None:
    same = [Output("a b", "x y", "x y")] * 7 + [Output("a b c", "x y z", "x y z")]
    analysis = analyse(same, languages=("", ""))
    assert [(one.words, one.sentences) for one in analysis.by_length] == [("2–2", 7), ("3–3", 1)]
