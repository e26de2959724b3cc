"""regard embed, and run.embed: a vector per line."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.models.text_embedder import POOLS
from regard.search.vector_files import NpyFile
from regard.system.errors import UserError
from regard.tasks import embedding
from tests.command import refused
from tests.encoders import TEXTS, embedder_run


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return embedder_run(tmp_path_factory.mktemp("runs") / "embedder")


@pytest.mark.parametrize("pool", POOLS)
def test_many_lines_equal_single_ones_in_any_batch(
    embedder: Path, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = regard.load(embedder)
    lines = [*TEXTS, "", "day", "the the the"]
    together = run.embed(lines, pool=pool)
    assert together.dtype == np.float32
    alone = np.concatenate([run.embed([line], pool=pool) for line in lines])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert not together[4].any()
    lengths = np.linalg.norm(np.delete(together, 4, axis=0), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)
    monkeypatch.setattr(embedding, "BATCH_TOKENS", 8)
    np.testing.assert_allclose(run.embed(lines, pool=pool), together, atol=1e-6)


def test_the_vectors_are_those_of_the_model(embedder: Path) -> None:
    run = regard.load(embedder)
    (row,) = run.task.verify_inputs([("a fine day", "")]).sources
    with torch.inference_mode():
        (expected,) = run.model(torch.tensor([row]))
    np.testing.assert_allclose(run.embed(["a fine day"])[0], expected, atol=1e-6)
    plain = run.embed(["a fine day"], normalize=False)[0]
    np.testing.assert_allclose(plain / np.linalg.norm(plain), expected, atol=1e-6)
    assert np.linalg.norm(plain) != pytest.approx(1)


def test_a_long_text_is_refused_cut_or_read_in_windows(embedder: Path) -> None:
    run = regard.load(embedder)
    long, begin, rest = "a " * 14 + "cat", "a " * 14, "cat"
    with pytest.raises(UserError, match=r"line:1: the text has .* at most 14"):
        run.embed([long])
    np.testing.assert_allclose(run.embed([long], on_long="cut"), run.embed([begin]), atol=1e-6)
    tokens = [len(ids) for ids in run.tokenizer.encode([begin, rest])]
    parts = run.embed([begin, rest], normalize=False)
    mean = np.average(parts, axis=0, weights=tokens)
    windows = run.embed(["day", long], on_long="windows", normalize=False)
    np.testing.assert_allclose(windows[1], mean, atol=1e-6)
    np.testing.assert_allclose(windows[0], run.embed(["day"], normalize=False)[0], atol=1e-6)
    largest = run.embed([begin, rest], pool="max", normalize=False).max(axis=0)
    windows = run.embed([long], pool="max", on_long="windows", normalize=False)
    np.testing.assert_allclose(windows[0], largest, atol=1e-6)


def test_a_file_becomes_an_array_or_json_lines(call, embedder: Path, tmp_path: Path) -> None:
    lines = [*TEXTS, "", "day"]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    expected = regard.load(embedder).embed(lines)
    result = call("embed", embedder, tmp_path / "lines.txt", "--out", "a.npy", "--json")
    assert (result.json["vectors"], result.json["width"], result.json["empty"]) == (6, 8, 1)
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), expected, atol=1e-6)
    piped = call("embed", embedder, "-", "--out", "b.npy", stdin="\n".join(lines))
    assert piped.out == ""
    assert "6 vectors of 8 numbers, 1 of them zeros: b.npy" in piped.err
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
    call("embed", embedder, tmp_path / "lines.txt", "--out", "c.jsonl", "--pool", "max")
    rows = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert [(row["line"], row["text"]) for row in rows] == list(enumerate(lines, start=1))
    pooled = regard.load(embedder).embed(lines, pool="max")
    np.testing.assert_allclose([row["vector"] for row in rows], pooled, atol=1e-6)


def test_a_file_has_room_for_any_number_of_rows(tmp_path: Path) -> None:
    for rows in (0, 1, 12_345):
        file = NpyFile(tmp_path / "a.npy", width=3)
        values = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        for begin in range(0, rows, 1000):
            file.append((), values[begin : begin + 1000])
        file.close()
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy", mmap_mode="r"), values)


def test_a_recurrent_classifier_gives_vectors_too(tmp_path: Path, call) -> None:
    settings = ("data.epoch_size=20", "train.steps=1", "train.batch_size=4", "model.d_model=8")
    options = [word for setting in settings for word in ("-s", setting)]
    trained = call("train", "parity", "--out", "parity", *options, "-s", "data.curriculum=0")
    assert trained.code == 0, trained.err
    run = regard.load(tmp_path / "parity")
    mean, final = (run.embed(["1 0 1", "1"], pool=pool) for pool in ("mean", "final"))
    assert mean.shape == final.shape == (2, 8)
    assert not np.allclose(mean[0], final[0])
    np.testing.assert_allclose(run.embed(["1"], pool="mean")[0], mean[1], atol=1e-6)


def test_wrong_input_is_one_sentence(call, embedder: Path, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("day\n")
    lines = tmp_path / "lines.txt"
    refused(call("embed", tiny_run, lines), "has no encoder that reads a text whole")
    refused(call("embed", embedder, lines, "--out", "a.txt"), "must end in .npy or .jsonl")
    refused(call("embed", embedder, "missing.txt"), "missing.txt cannot be read")
    (tmp_path / "folder.npy").mkdir()
    refused(call("embed", embedder, lines, "--out", "folder.npy"), "is a folder; name a file")
    refused(call("embed", embedder, lines, "--out", "/proc/a.npy"), "could not be written")
    (tmp_path / "bad.txt").write_bytes(b"day\n\xff\n" + b"a " * 15 + b"\n")
    bad = tmp_path / "bad.txt"
    refused(call("embed", embedder, bad), f"{bad}:2: not UTF-8 text")
    skipped = call("embed", embedder, bad, "--on-bad-line", "skip", "--on-long", "windows")
    assert skipped.code == 0, skipped.err
    assert "1 texts are too long for the model: they were read in parts" in skipped.err
    assert np.load(tmp_path / "vectors.npy").any(axis=1).tolist() == [True, False, True]
    with pytest.raises(UserError, match="pool='first' is not one of cls, mean, max, final"):
        regard.load(embedder).embedder(pool="first")


def test_an_interrupted_file_is_not_there(
    embedder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.search.vector_files import embed_to_file

    maker = regard.load(embedder).embedder()

    def chunks():
        yield "input", ["day"]
        os.kill(os.getpid(), signal.SIGINT)
        yield "input", ["day"]

    with pytest.raises(KeyboardInterrupt):
        embed_to_file(maker, chunks(), tmp_path / "a.npy", skip=False)
    assert list(tmp_path.iterdir()) == []
