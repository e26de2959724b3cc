"""Masks and pairs: how many, which tokens, and that they are functions of (seed, epoch, row)."""

import numpy as np
import pytest

from regard.data.examples import InMemory
from regard.data.masking import (
    FOLLOWS,
    FOLLOWS_NOT,
    NO_TARGET,
    MaskedRows,
    Masking,
    SentencePairs,
    room_for,
)
from regard.data.sentence_rows import packed
from regard.data.tokenizer import Tokenizer

LONGEST = 40
TOKENIZER = Tokenizer.train(
    [" ".join("abcdefghijklmnopqrstuvwxyz"), "walking talking walked talked"],
    kind="wordpiece",
    vocab_size=60,
    masks=True,
)
SPECIAL = TOKENIZER.special


def rows(
    pairs: SentencePairs, *, rate: float = 0.15, whole_words: bool = False, seed: int = 1
) -> tuple[Masking, InMemory]:
    """A hundred documents of sentences of plain tokens; the first token names the document."""
    random, plain = np.random.default_rng(seed), TOKENIZER.plain_ids
    room, longest = room_for(pairs, LONGEST)
    stream = []
    for document in range(100):
        for _ in range(random.integers(2, 20)):
            length = random.integers(2, 9)
            ids = [plain[document % 30], *random.choice(plain, length).tolist()]
            stream.append((ids, False))
        stream.append(([], True))
    made = list(packed(stream, room=room, longest=longest))
    masking = Masking(TOKENIZER, pairs, rate=rate, whole_words=whole_words, room=room)
    return masking, InMemory(*([row[side] for row in made] for side in (1, 2, 3)))


def examples(pairs: SentencePairs, *, seed: int = 1, epoch: int = 0, **options):
    masking, made = rows(pairs, **options)
    masked = MaskedRows(made, masking, seed=seed, epoch=epoch)
    return masking.batch(*masked.rows(np.arange(len(made)))), made


@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_the_rate_and_the_shares_are_kept(rate: float) -> None:
    batch, made = examples("none", rate=rate)
    chosen = batch.targets != NO_TARGET
    assert int(chosen.sum()) == pytest.approx(rate * made.sides()[0].ends[-1], rel=0.03)
    new, old = batch.source[chosen], batch.targets[chosen]
    assert (new == SPECIAL.mask).float().mean().item() == pytest.approx(0.8, abs=0.03)
    assert (new == old).float().mean().item() == pytest.approx(0.1, abs=0.03)
    assert not any(int(token) in SPECIAL.all for token in set(old.tolist()))
    assert batch.counts == {"mlm": int(chosen.sum())}


def test_what_is_not_chosen_stays_and_a_row_is_framed() -> None:
    batch, made = examples("none")
    (texts, *_) = made.rows(np.arange(len(made)))
    for row, text in enumerate(texts):
        whole = np.where(batch.targets[row] == NO_TARGET, batch.source[row], batch.targets[row])
        length = int(batch.lengths[row])
        assert whole[:length].tolist() == [SPECIAL.start, *text, SPECIAL.end]
    assert int(batch.segments.sum()) == 0
    assert set(batch.classes.tolist()) == {NO_TARGET}


def test_masks_are_a_function_of_seed_epoch_and_row() -> None:
    masking, made = rows("nsp")
    every = np.arange(len(made))
    one = masking.batch(*MaskedRows(made, masking, seed=1, epoch=3).rows(every))
    order = every[::-1].copy()
    again = masking.batch(*MaskedRows(made, masking, seed=1, epoch=3).rows(order))
    assert (again.source.flip(0) == one.source).all()
    for seed, epoch in ((1, 4), (2, 3)):
        other = MaskedRows(made, masking, seed=seed, epoch=epoch)
        (sources, *_) = other.rows(every)
        same = [a == b[: len(a)] for a, b in zip(sources, one.source.tolist(), strict=True)]
        assert sum(same) < 0.05 * len(same)


def test_half_of_the_second_texts_are_of_another_document_and_no_longer() -> None:
    batch, _ = examples("nsp", rate=0.01)
    paired = batch.classes != NO_TARGET
    assert (batch.classes[paired] == FOLLOWS).float().mean().item() == pytest.approx(0.5, abs=0.08)
    whole = batch.source.where(batch.targets == NO_TARGET, batch.targets)
    for row in paired.nonzero()[:, 0].tolist():
        tokens = whole[row, : int(batch.lengths[row])].tolist()
        middle = tokens.index(SPECIAL.end)
        assert tokens[-1] == SPECIAL.end
        assert batch.segments[row, : len(tokens)].tolist() == [0] * (middle + 1) + [1] * (
            len(tokens) - middle - 1
        )
        same = tokens[1] == tokens[middle + 1]  # a sentence begins with its document's number
        if batch.classes[row] == FOLLOWS:
            assert same
    assert int(batch.lengths.max()) <= LONGEST
    follows = batch.lengths[batch.classes == FOLLOWS].float().mean().item()
    follows_not = batch.lengths[batch.classes == FOLLOWS_NOT].float().mean().item()
    assert follows_not == pytest.approx(follows, rel=0.08)  # the length tells nothing


def test_swapped_texts_are_neighbours_in_the_other_order() -> None:
    batch, made = examples("sop", rate=0.01)
    (texts, *_) = made.rows(np.arange(len(made)))
    whole = batch.source.where(batch.targets == NO_TARGET, batch.targets)
    seen = set()
    for row, text in enumerate(texts):
        tokens = whole[row, 1 : int(batch.lengths[row]) - 1].tolist()
        class_ = int(batch.classes[row])
        if class_ == NO_TARGET:
            continue
        middle = tokens.index(SPECIAL.end)
        first, second = tokens[:middle], tokens[middle + 1 :]
        assert text == (first + second if class_ == FOLLOWS else second + first)
        seen.add(class_)
    assert seen == {FOLLOWS, FOLLOWS_NOT}


def test_the_pieces_of_a_word_are_masked_together() -> None:
    (walking,) = TOKENIZER.encode(["walking a talked b"])
    assert any(TOKENIZER.continues_word[token] for token in walking)
    masking = Masking(TOKENIZER, "none", rate=0.3, whole_words=True, room=30)
    row = [SPECIAL.first, *walking, SPECIAL.end]
    for seed in range(20):
        _, targets = masking._masked(row, np.random.default_rng(seed))
        for place, token in enumerate(row):
            if TOKENIZER.continues_word[token]:
                assert (targets[place] == NO_TARGET) == (targets[place - 1] == NO_TARGET)


def test_a_tokenizer_with_a_mask_reads_it_where_it_is_written() -> None:
    texts = ["the king , who was [ here ] . dog, he"] * 3
    assert TOKENIZER.special.mask == 4
    again = Tokenizer.read({"tokenizer.json": TOKENIZER.json}, "tokenizer.json")
    assert again.special == TOKENIZER.special
    for kind in ("wordpiece", "bpe", "words", "chars"):
        tokenizer = Tokenizer.train(texts, kind=kind, vocab_size=90, masks=True)
        mask = tokenizer.special.mask
        assert mask == 4
        assert mask not in tokenizer.encode(["the [MASK] who"])[0]  # no text is encoded to it
        (around,) = tokenizer.encode(["the king who was"])
        (king,) = tokenizer.encode(["the king"])
        (the,) = tokenizer.encode(["the "])
        if kind != "chars":
            masked = tokenizer.encode_masked("the [MASK] who was")
            assert masked == [*the, mask, *around[len(king) :]]
        assert tokenizer.encode_masked("[MASK]") == [mask]
        assert tokenizer.encode_masked("[MASK][MASK]") == [mask, mask]
    tokenizer = Tokenizer.train(texts, kind="wordpiece", vocab_size=90, masks=True)
    assert tokenizer.tokens(tokenizer.encode_masked("[MASK], he")) == ["[MASK]", ",", "he"]
    assert tokenizer.tokens(tokenizer.encode(["a <unk> he"])[0])[-2:] == ["<unk>", "he"]


@pytest.mark.parametrize(
    ("kind", "begins"),
    [("words", "3c38deaa5c15c6f7"), ("chars", "e26cb04db0f77380"), ("bpe", "c11a0684f6049420")],
)
def test_tokenizers_without_a_mask_are_as_they_were(kind, begins: str) -> None:
    tokenizer = Tokenizer.train(["a b c a b", "d, e f! g"], kind=kind, vocab_size=40)
    assert tokenizer.hash.startswith(begins)
    assert tokenizer.special.mask is None
