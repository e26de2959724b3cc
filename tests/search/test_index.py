"""regard search: the nearest lines, by exact search in an index that is kept."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.nn.int8 import round_rows
from regard.search import exact
from regard.search.index import open_index
from regard.system.errors import UserError
from tests.command import refused
from tests.encoders import TEXTS, embedder_run

LINES = ["the bank of the river", "", "a cat sat on the mat", "the bank lends money", "a fine day"]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return embedder_run(tmp_path_factory.mktemp("runs") / "embedder")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@given(
    rows=st.integers(1, 40),
    queries=st.integers(1, 4),
    top=st.integers(1, 12),
    block_rows=st.integers(1, 45),
)
def test_search_in_blocks_equals_sorting_all_scores(rows, queries, top, block_rows) -> None:
    random = np.random.default_rng(rows)
    vectors = random.normal(size=(rows, 6)).astype(np.float32)
    wanted = random.normal(size=(queries, 6)).astype(np.float32)
    before = exact.BLOCK_BYTES
    exact.BLOCK_BYTES = block_rows * 24
    try:
        scores, found = exact.search(wanted, vectors, top=top)
        integers, scales = round_rows(torch.from_numpy(vectors))
        rounded, _ = exact.search(wanted, integers.numpy(), top=top, scales=scales[:, 0].numpy())
    finally:
        exact.BLOCK_BYTES = before
    expected = wanted @ vectors.T
    order = np.argsort(-expected, axis=1)[:, :top]
    np.testing.assert_array_equal(found, order)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, order, 1), atol=1e-5)
    near = np.take_along_axis(expected, order, 1)
    np.testing.assert_allclose(rounded, near, atol=0.3)


def test_the_nearest_lines_come_first_with_their_cosines(call, embedder, corpus: Path) -> None:
    query = "the bank"
    found = call("search", embedder, corpus, "--query", query, "--json", "--top", 10).json
    ((hits),) = [result["hits"] for result in found["results"]]
    run = regard.load(embedder)
    cosines = run.embed(LINES) @ run.embed([query])[0]
    order = [number for number in np.argsort(-cosines) if LINES[number]]
    assert [hit["line"] for hit in hits] == [number + 1 for number in order]
    assert [hit["text"] for hit in hits] == [LINES[number] for number in order]
    np.testing.assert_allclose([hit["score"] for hit in hits], cosines[order], atol=1e-6)
    text = call("search", embedder, corpus, "--query", query, "--top", 1)
    assert text.out == f"{hits[0]['score']:.4f}\t{hits[0]['line']}\t{hits[0]['text']}\n"
    assert text.err == ""  # the index is there


def test_queries_are_read_from_a_file(call, embedder, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    found = call("search", embedder, corpus, "--queries", "queries.txt", "--top", 1)
    lines = found.out.splitlines()
    assert lines[0] == f"> {TEXTS[0]}"
    assert [line.split("\t")[2] for line in lines[1::2]] == TEXTS
    assert "4 lines (1 empty lines left out), 8 numbers each, float32" in found.err


def test_a_long_line_is_read_in_parts_and_counted(embedder: Path, tmp_path: Path) -> None:
    long, told = "the cat " * 20 + "lends money", list[str]()
    (tmp_path / "lines.txt").write_text(f"day\n{long}\n")
    run = regard.load(embedder)
    index = open_index(run, tmp_path / "lines.txt", tell=told.append)
    assert "2 lines (1 read in parts: too long for the model)" in told[0]
    ((hit,),) = index.search([long], top=1)
    assert (hit.line, hit.text) == (2, long)
    assert hit.score == pytest.approx(1, abs=1e-5)


def test_an_index_is_kept_and_made_anew_when_the_corpus_changes(
    embedder: Path, corpus: Path
) -> None:
    run, told = regard.load(embedder), list[str]()
    first = open_index(run, corpus, tell=told.append)
    made = (first.path / "vectors.npy").stat().st_mtime_ns
    again = open_index(run, corpus, tell=told.append)
    assert (again.path / "vectors.npy").stat().st_mtime_ns == made
    assert len(told) == 1
    corpus.write_text(corpus.read_text() + "day\n")
    changed = open_index(run, corpus, tell=told.append)
    assert "the corpus has changed since: it is made anew" in told[1]
    assert [hit.line for hit in changed.search(["day"], top=1)[0]] == [6]
    assert not [path for path in corpus.parent.iterdir() if path.name.startswith(".")]


def test_an_index_of_another_model_or_pooling_is_refused(
    call, embedder: Path, corpus: Path, tmp_path: Path
) -> None:
    ask = ("--query", "day")
    other = embedder_run(tmp_path / "other", seed=2)
    assert call("search", embedder, corpus, *ask).code == 0
    refused(call("search", other, corpus, *ask), "was made with another model, and not with")
    refused(call("search", embedder, corpus, *ask, "--pool", "max"), "was made with --pool mean")
    assert call("search", other, corpus, *ask, "--index", "elsewhere").code == 0
    rebuilt = call("search", other, corpus, *ask, "--rebuild")
    assert rebuilt.code == 0
    assert "lines.txt.index: 4 lines" in rebuilt.err
    refused(call("search", embedder, corpus, *ask), "was made with another model")


def test_int8_vectors_take_a_quarter_and_say_their_recall(call, embedder, corpus: Path) -> None:
    ask = ("--query", "the bank", "--json", "--int8")
    found = call("search", embedder, corpus, *ask)
    assert found.json["recall_at_10"] == 1.0
    assert "recall@10 1.000" in found.err
    folder = corpus.with_name("lines.txt.index")
    assert np.load(folder / "vectors.npy").dtype == np.int8
    exact_scores = call("search", embedder, corpus, *ask[:-1], "--index", "floats").json
    for one, other in zip(found.json["results"], exact_scores["results"], strict=True):
        scores = [[hit["score"] for hit in hits["hits"]] for hits in (one, other)]
        np.testing.assert_allclose(*scores, atol=0.02)
    back = call("search", embedder, corpus, "--query", "day")
    assert "holds int8, not float32: it is made anew" in back.err


def test_wrong_input_is_one_sentence(call, embedder: Path, corpus: Path, tmp_path: Path) -> None:
    ask = ("--query", "day")
    refused(call("search", embedder, corpus), "say what to look for")
    (tmp_path / "empty.txt").write_text("\n \n")
    refused(call("search", embedder, corpus, "--queries", "empty.txt"), "empty.txt is empty")
    refused(call("search", embedder, tmp_path / "empty.txt", *ask), "no line with a word in it")
    refused(call("search", embedder, "missing.txt", *ask), "missing.txt cannot be read")
    refused(call("search", embedder, tmp_path, *ask), "is a folder; name a text file")
    refused(call("search", embedder, corpus, "--query", " "), "--query is empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    refused(call("search", embedder, corpus, *ask, "--index", "mine"), "mine is no index")
    refused(
        call("search", embedder, corpus, *ask, "--index", "mine", "--rebuild"), "mine is no index"
    )
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_damaged_index_is_named(call, embedder: Path, corpus: Path) -> None:
    index = open_index(regard.load(embedder), corpus)
    (index.path / "vectors.npy").write_bytes(b"nothing")
    refused(call("search", embedder, corpus, "--query", "day"), "is damaged", "--rebuild")
    assert call("search", embedder, corpus, "--query", "day", "--rebuild").code == 0
    np.save(index.path / "vectors.npy", np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(UserError, match="has the shape"):
        open_index(regard.load(embedder), corpus).search(["day"])
    (index.path / "manifest.json").write_text(json.dumps({"version": 1}))
    refused(call("search", embedder, corpus, "--query", "day"), "is no index")
    assert call("search", embedder, corpus, "--query", "day", "--rebuild").code == 0
