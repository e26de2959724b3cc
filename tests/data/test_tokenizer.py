"""The tokenizer: special ids in their places, whatever the text holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokenizer import SPECIAL, UNKNOWN, Tokenizer


def test_words_get_ids_by_frequency_after_the_special_ones() -> None:
    tokenizer = Tokenizer.train(["b a b", "c"], vocab_size=100)
    assert tokenizer.tokens(range(7)) == [*SPECIAL, "b", "a", "c"]
    assert tokenizer.encode(["a  b", ""]) == [[5, 4], []]
    assert tokenizer.decode([1, 5, 4, 2, 0]) == "a b"


def test_a_word_that_looks_special_is_unknown_and_moves_no_id() -> None:
    tokenizer = Tokenizer.train(["<s> a </s>", "<pad> <unk> x<s>y"], vocab_size=100)
    assert tokenizer.tokens(range(4)) == SPECIAL
    assert tokenizer.encode(["<s> a </s> <pad>"]) == [[UNKNOWN, 4, UNKNOWN, UNKNOWN]]
    assert len(tokenizer.encode(["x<s>y"])[0]) == 1
    assert tokenizer.first_unknown("a </s>") == "</s>"


def test_unknown_words_are_named_and_shown() -> None:
    tokenizer = Tokenizer.train(["a b c"], vocab_size=6)
    assert len(tokenizer) == 6
    assert tokenizer.first_unknown("a b") is None
    assert tokenizer.first_unknown("a z c") == "z"
    assert tokenizer.decode([4, 3]) == "a <unk>"


def test_saved_and_loaded_is_the_same() -> None:
    tokenizer = Tokenizer.train(["a b"], vocab_size=9)
    again = Tokenizer.read({"tokenizer.json": tokenizer.json}, "tokenizer.json")
    assert (again.hash, again.encode(["b a"])) == (tokenizer.hash, tokenizer.encode(["b a"]))


@pytest.mark.parametrize(("files", "fault"), [({}, "is missing"), ({"x.json": "{"}, "is not a")])
def test_what_is_no_tokenizer_is_refused(files: dict, fault: str) -> None:
    with pytest.raises(ValueError, match=f"x.json {fault}"):
        Tokenizer.read(files, "x.json")


@given(st.text(alphabet="abc é\n\U0001f600", max_size=12))
def test_characters_come_back_as_they_were(text: str) -> None:
    tokenizer = Tokenizer.train(["abc é\n\U0001f600"], vocab_size=99, kind="chars")
    (ids,) = tokenizer.encode([text])
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text == tokenizer.normal(text)


def test_capitals_are_read_as_small_letters_when_asked() -> None:
    tokenizer = Tokenizer.train(["Ab"], vocab_size=9, kind="chars", lowercase=True)
    assert tokenizer.encode(["AB"]) == tokenizer.encode(["ab"])
    assert tokenizer.first_unknown("aBx") == "x"
    assert tokenizer.normal("aB") == "ab"
    greek = Tokenizer.train(["ΛΟΓΟΣ"], vocab_size=9, lowercase=True)
    assert greek.first_unknown("ΛΟΓΟΣ") is None


def test_the_normal_form_is_what_decoding_writes() -> None:
    words = Tokenizer.train(["a b"], vocab_size=9)
    assert words.normal("  a   b ") == words.decode(*words.encode(["  a   b "])) == "a b"


REAL = [
    "A man in a blue shirt is standing on a ladder, cleaning a window.",
    "Zwei Männer stehen am Herd und bereiten Essen zu; der Koch heißt Jürgen!",
    'He said: "2,000 dogs (or 3?) ran 50% faster" — #1 & #2.',
]
PIECES = ("bpe", "unigram", "wordpiece", "bytes")


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize("lowercase", [False, True])
def test_pieces_come_back_as_the_text_they_were_cut_from(kind, lowercase: bool) -> None:
    tokenizer = Tokenizer.train(REAL * 3, vocab_size=330, kind=kind, lowercase=lowercase)
    assert tokenizer.tokens(range(4)) == SPECIAL
    for text, ids in zip(REAL, tokenizer.encode(REAL), strict=True):
        assert tokenizer.decode(ids) == (text.lower() if lowercase else text)
        assert UNKNOWN not in ids
    (short,) = tokenizer.encode([" A  man\t in a "])
    assert tokenizer.decode(short) == tokenizer.normal("A man in a")


@pytest.mark.parametrize("kind", PIECES)
def test_text_that_looks_special_makes_no_special_token(kind) -> None:
    tokenizer = Tokenizer.train(REAL * 3, vocab_size=330, kind=kind)
    (ids,) = tokenizer.encode(["</s> <pad> <s>"])
    assert min(ids) >= UNKNOWN


@given(st.text(max_size=20))
def test_bytes_know_every_text(text: str) -> None:
    tokenizer = Tokenizer.train(REAL, vocab_size=300, kind="bytes", normalize="none")
    (ids,) = tokenizer.encode([text])
    assert UNKNOWN not in ids
    assert tokenizer.first_unknown(text) is None
    assert tokenizer.decode(ids) == tokenizer.normal(text)


def test_unicode_is_brought_to_the_form_that_was_asked_for() -> None:
    composed, apart = "é", "e\u0301"
    for form, same in (("nfc", True), ("none", False)):
        tokenizer = Tokenizer.train([composed], vocab_size=9, kind="chars", normalize=form)
        assert (tokenizer.first_unknown(apart) is None) == same
    wide = Tokenizer.train(["abc"], vocab_size=9, kind="chars", normalize="nfkc")
    assert wide.first_unknown("ＡＢＣ".lower()) is None


def test_wordpiece_knows_the_rest_of_a_text_without_spaces() -> None:
    tokenizer = Tokenizer.train(["我爱北京", "北京爱我"] * 2, kind="wordpiece", vocab_size=60)
    known, other = tokenizer.encode(["我爱北京", "我爱南京"])
    assert UNKNOWN not in known
    assert tokenizer.decode(known) == "我爱北京"
    assert [one for one, same in zip(other, known, strict=True) if one != same] == [UNKNOWN]
    assert UNKNOWN not in tokenizer.encode(["我爱" * 200])[0]
