"""BLEU written out equals sacrebleu's; languages are split into words as they should be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from regard.config import Data
from regard.metrics.bleu import bleu
from regard.metrics.translation import (
    MAKERS,
    signatures,
    tokenizer_of,
    translation_metrics,
    words_of,
)
from regard.system.errors import UserError

REFERENCES = [
    "Die Katze schläft seit heute Morgen auf dem alten Sofa, und niemand weckt sie.",
    "Am Abend kochen meine Eltern eine Suppe aus Kürbis und Ingwer.",
    "Der Zug nach Bremen fährt heute von Gleis 7 ab.",
]
HYPOTHESES = [
    "Die Katze schläft seit heute früh auf dem alten Sofa und niemand weckt sie.",
    "Am Abend kochen die Eltern eine Suppe , eine Suppe mit Ingwer .",
    "der Zug nach Bremen fährt ab Gleis 7.",
]
"""Like outputs of a model: a wrong word, a repeated, a missing one, a space before a full stop."""


def ours(hypotheses: list[str], references: list[str]) -> float:
    cut = BLEU().tokenizer
    return bleu([cut(one).split() for one in hypotheses], [cut(one).split() for one in references])


def test_bleu_written_out_equals_sacrebleu_on_sentences() -> None:
    theirs = BLEU().corpus_score(HYPOTHESES, [REFERENCES])
    mine = ours(HYPOTHESES, REFERENCES)
    assert mine.score == pytest.approx(theirs.score, abs=1e-9)
    assert mine.precisions == pytest.approx(theirs.precisions)
    assert mine.brevity_penalty == pytest.approx(theirs.bp)
    assert (mine.length, mine.reference_length) == (theirs.sys_len, theirs.ref_len)


SENTENCE = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=9).map(" ".join)


@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=6))
def test_bleu_written_out_equals_sacrebleu_on_anything(pairs) -> None:
    hypotheses, references = map(list, zip(*pairs, strict=True))
    theirs = BLEU().corpus_score(hypotheses, [references]).score
    assert ours(hypotheses, references).score == pytest.approx(theirs, abs=1e-9)


def test_a_perfect_translation_metrics_100_and_0_errors() -> None:
    metrics = translation_metrics(REFERENCES, REFERENCES, language="de")
    assert metrics == pytest.approx({"bleu": 100, "bleu_lc": 100, "chrf": 100, "ter": 0})
    lowered = translation_metrics([one.lower() for one in REFERENCES], REFERENCES, language="de")
    assert lowered["bleu_lc"] == pytest.approx(100)
    assert lowered["bleu"] < 80


def test_chinese_is_cut_into_characters_and_german_into_words() -> None:
    cuts = {"zh": "zh zh-CN ZH_tw cmn zho", "ja-mecab": "ja jpn", "ko-mecab": "ko", "13a": "de en"}
    for name, languages in cuts.items():
        assert {tokenizer_of(language) for language in languages.split()} == {name}
    assert tokenizer_of("") == "13a"
    assert Data(source="translation.en", target="translation.zh").languages == ("en", "zh")
    assert Data(source="2", target="1", target_language="de").languages == ("", "de")
    one, other = ["我喜欢这本书因为它很好"], ["我喜欢那本书因为它很好"]
    assert translation_metrics(one, other, language="zh", names=["bleu"])["bleu"] > 50
    assert translation_metrics(one, other, language="de", names=["bleu"])["bleu"] < 10
    assert "tok:zh" in signatures("zh")["bleu_signature"]
    german = signatures("de")
    assert german.keys() == {f"{name}_signature" for name in MAKERS}
    assert german["bleu_lc_signature"].startswith("nrefs:1|case:lc|eff:no|tok:13a")
    assert german["chrf_signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6")


def test_japanese_is_cut_into_words_that_no_space_shows() -> None:
    assert words_of("ja")("犬が走っている。") == ["犬", "が", "走っ", "て", "いる", "。"]
    one, other = ["犬が公園を走っている。"], ["猫が公園を走っている。"]
    assert 50 < translation_metrics(one, other, language="ja", names=["bleu"])["bleu"] < 100
    assert "tok:ja-mecab" in signatures("ja")["bleu_signature"]


def test_a_language_that_needs_a_package_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(language: str) -> BLEU:
        raise RuntimeError("Japanese tokenization requires extra dependencies")

    monkeypatch.setitem(MAKERS, "bleu", missing)
    with pytest.raises(UserError, match=r"BLEU of ja needs .* pip install 'sacrebleu\[ja\]'"):
        translation_metrics(["a"], ["a"], language="ja", names=["bleu"])
