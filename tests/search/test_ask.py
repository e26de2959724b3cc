"""regard ask: the lines that a search finds, put before a question to a generator."""

import json
from pathlib import Path

import pytest

import regard
from regard.runs.importing import import_run
from regard.search.ask import SYSTEM, ask, reader, with_notes
from regard.search.index import Hit, open_index
from tests.command import refused
from tests.data.test_chat_template import CHATML
from tests.encoders import embedder_run
from tests.pretrained.foreign import byte_pairs, foreign_model

LINES = ["the bank of the river", "a cat sat on the mat", "the bank lends money"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, and a model that says nonsense and has a chat template."""
    folder = tmp_path_factory.mktemp("runs")
    model = foreign_model(
        "llama", vocab_size=300, tie_word_embeddings=True, max_position_embeddings=600
    )
    model.save_pretrained(folder / "hf")
    byte_pairs().save(str(folder / "hf" / "tokenizer.json"))
    settings = {"eos_token": "<|end|>", "bos_token": "<|open|>", "chat_template": CHATML}
    (folder / "hf" / "tokenizer_config.json").write_text(json.dumps(settings))
    import_run(str(folder / "hf"), folder / "smollm2")
    embedder_run(folder / "minilm")
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path / "notes.txt"


def test_the_nearest_lines_stand_before_the_question(call, runs: Path, corpus: Path) -> None:
    index = open_index(regard.load(runs / "minilm"), corpus)
    conversation = reader(regard.load(runs / "smollm2"), max_new_tokens=4)
    grounded = ask(index, conversation, "the bank", top=2, least=-1)
    (hits,) = index.search(["the bank"], top=2)
    assert grounded.used == hits
    assert grounded.prompt == (
        f"Notes:\n[1] {hits[0].text}\n[2] {hits[1].text}\n\nQuestion: the bank"
    )
    answer = "".join(grounded.pieces)
    arguments = ("ask", corpus, "the bank", "--encoder", runs / "minilm", "--top", 2)
    arguments += ("--generator", runs / "smollm2", "--least", -1, "--max-new-tokens", 4)
    printed = call(*arguments)
    assert printed.code == 0, printed.err
    shown = printed.out.split("\n")
    assert shown[0] == f"[1] {hits[0].score:.4f}\t{hits[0].line}\t{hits[0].text}"
    in_json = call(*arguments, "--json").json
    assert in_json["answer"] == answer
    assert [Hit(**hit) for hit in in_json["used"]] == hits


def test_nothing_is_generated_where_nothing_near_is_found(call, runs: Path, corpus: Path) -> None:
    options = ("--encoder", runs / "minilm", "--generator", runs / "smollm2", "--least", 1)
    said = call("ask", corpus, "a fine day", *options)
    assert (said.code, said.out) == (0, "")
    assert "Nothing near the question was found" in said.err
    assert call("ask", corpus, "a fine day", *options, "--json").json["answer"] is None


def test_the_farthest_lines_are_left_out_where_there_is_no_room(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("the bank\n" + ("the cat sat " * 15 + "\n") * 5)
    index = open_index(regard.load(runs / "minilm"), tmp_path / "notes.txt")
    conversation = reader(regard.load(runs / "smollm2"), max_new_tokens=4)
    grounded = ask(index, conversation, "the cat", top=6, least=-1)
    assert 0 < len(grounded.used) < 6
    assert grounded.prompt == with_notes("the cat", grounded.used)
    assert "do not know" in SYSTEM


def test_wrong_input_is_one_sentence(call, runs: Path, corpus: Path) -> None:
    minilm = ("--encoder", runs / "minilm")
    refused(call("ask", corpus, "day"), "regard import minilm --out runs/minilm makes it")
    refused(call("ask", corpus, "day", *minilm), "regard import smollm2 --out runs/smollm2")
    refused(call("ask", corpus, " ", *minilm), "the question is empty")
    refused(
        call("ask", corpus, "day", *minilm, "--generator", runs / "minilm"), "has no chat template"
    )
