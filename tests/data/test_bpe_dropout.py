"""BPE-dropout: without a rate the library's own cut, with one the same text cut otherwise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.data.bpe_dropout import BpeDropout
from regard.data.tokenizer import Tokenizer
from regard.tasks.translate import Translate
from tests.data.test_tokenizer import REAL

TEXTS = [*REAL, "a stand in the window", "Männer 漢 stehen"]


@pytest.fixture(scope="module", params=["bpe", "bytes"])
def tokenizer(request) -> Tokenizer:
    return Tokenizer.train(REAL * 3, vocab_size=400, kind=request.param)


def cut(tokenizer: Tokenizer, rate: float, texts: list[str], seed: int = 0) -> list[list[int]]:
    cutter, random = BpeDropout(tokenizer, rate), np.random.default_rng(seed)
    return [cutter.encode(text, random) for text in texts]


def test_without_a_rate_it_is_what_the_library_does(tokenizer: Tokenizer) -> None:
    assert cut(tokenizer, 0.0, TEXTS) == tokenizer.encode(TEXTS)


@given(rate=st.floats(0.05, 0.95), seed=st.integers(0, 99))
def test_pieces_join_to_the_same_text(tokenizer: Tokenizer, rate: float, seed: int) -> None:
    rows = cut(tokenizer, rate, REAL, seed)
    assert [tokenizer.decode(row) for row in rows] == REAL


def test_the_higher_the_rate_the_more_pieces_and_all_is_seeded(tokenizer: Tokenizer) -> None:
    def pieces(rate: float, seed: int = 0) -> list[list[int]]:
        return cut(tokenizer, rate, REAL * 5, seed)

    counts = [sum(map(len, pieces(rate))) for rate in (0.0, 0.1, 0.3, 0.6, 0.999)]
    assert counts == sorted(counts)
    assert counts[-1] > 0.98 * 5 * sum(len(list("".join(tokenizer.words(text)))) for text in REAL)
    assert pieces(0.3) == pieces(0.3) != pieces(0.3, seed=1)


def test_only_training_is_cut_otherwise_and_every_epoch_anew(tmp_path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text}\n" for text in REAL))
    files = [f"data.{split}=pairs.tsv" for split in ("train", "valid", "test")]
    settings = [*files, f"data.directory={tmp_path}", "data.max_length=200", "tokenizer.kind=bpe"]
    task = Translate.learn(config.load("sort", [*settings, "tokenizer.dropout=0.3"]))

    def trained_on(epoch: int) -> list[list[int]]:
        rows = [row for batch in task.batches().epoch(epoch) for row in batch.source.tolist()]
        return sorted(rows)

    plain = (task.tokenizer.encode(REAL), task.tokenizer.encode(REAL))
    assert trained_on(0) == trained_on(0) != trained_on(1)
    for split in ("train", "valid"):
        examples = task.examples(split)
        assert examples.rows(np.arange(len(examples))) == plain


def test_a_text_that_would_grow_too_long_stays_as_it_was(tmp_path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text}\n" for text in REAL))
    files = [f"data.{split}=pairs.tsv" for split in ("train", "valid", "test")]
    plain = Translate.learn(
        config.load(
            "sort",
            [*files, f"data.directory={tmp_path}", "data.max_length=200", "tokenizer.kind=bpe"],
        )
    )
    longest = max(map(len, plain.tokenizer.encode(REAL)))
    task = Translate.learn(
        config.load(
            "sort",
            [
                *files,
                f"data.directory={tmp_path}",
                f"data.max_length={longest}",
                "tokenizer.kind=bpe",
                "tokenizer.dropout=0.9",
            ],
        )
    )
    for batch in task.batches().epoch(0):
        assert batch.source.size(1) <= longest + 1


def test_other_kinds_have_no_merges_to_leave_out(call) -> None:
    result = call("train", "sort", "-s", "tokenizer.dropout=0.1")
    assert result.code == 2
    assert "dropout needs kind=bpe or bytes, not kind=words" in result.err
