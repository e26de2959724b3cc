"""The tokenizer: special ids in their places, whatever the text holds."""

from pathlib import Path

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
    assert tokenizer.unknown("a </s>") == "</s>"


def test_unknown_words_are_named_and_shown() -> None:
    tokenizer = Tokenizer.train(["a b c"], vocab_size=6)
    assert len(tokenizer) == 6
    assert tokenizer.unknown("a b") is None
    assert tokenizer.unknown("a z c") == "z"
    assert tokenizer.decode([4, 3]) == "a <unk>"


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["a b"], vocab_size=9)
    (tmp_path / "tokenizer.json").write_text(tokenizer.json)
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.hash == tokenizer.hash
    assert again.encode(["b a"]) == tokenizer.encode(["b a"])
