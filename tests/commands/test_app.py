"""The commands, as a person meets them: what they print, and one sentence on what is wrong."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.config import recipes
from regard.data.generators import HELD_OUT
from tests.command import refused


def test_recipes_show_expected_score_and_minutes(call) -> None:
    result = call("recipes")
    for name in recipes():
        assert name in result.out
    assert "exact_match 0.999" in result.out
    assert call("recipes", "--json").json["recipes"]["sort"]["expected"] == {"exact_match": 0.999}


@pytest.mark.pictures
def test_train_evaluate_predict_verify(
    call, tiny: list[str], tmp_path: Path, few_equalities: None
) -> None:
    trained = call("train", "reverse", *tiny)
    assert trained.code == 0, trained.err
    assert trained.out == ""
    assert "valid: loss" in trained.err
    assert "runs/reverse/attention.png" in trained.err
    for name in ("curves.png", "attention.png"):
        assert (tmp_path / "runs/reverse" / name).read_bytes().startswith(b"\x89PNG")

    short = ("--max-new-tokens", 3)  # what has learned nothing would write on and on
    report = call("evaluate", "runs/reverse", *short, "--json").json
    assert report.keys() == {"task", "recipe", "split", "examples", "seconds", "metrics"}
    assert (report["task"], report["recipe"], report["split"]) == ("translate", "reverse", "test")
    assert report["examples"] == HELD_OUT["test"]
    assert report["metrics"].keys() == {"loss", "ppl", "token_accuracy", "exact_match"}
    assert "exact_match" in call("evaluate", "runs/reverse", *short, "--split", "valid").out

    result = call("verify", "runs/reverse")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[-1] == f"{len(lines) - 1} of {len(lines) - 1} equalities hold."
    assert all("(≤" in line and line.endswith("equal") for line in lines[:-1])
    assert any("torch.nn.Transformer" in line for line in lines)
    assert any(line.startswith("runs/reverse") for line in lines)


def test_predict_keeps_lines_and_order(call, tiny_run: Path, tmp_path: Path) -> None:
    text = "3 1 2\n\n9 8\n   \n7\n"
    (tmp_path / "lines.txt").write_text(text)
    from_file, from_input = (
        call("predict", tiny_run, "lines.txt"),
        call("predict", tiny_run, stdin=text),
    )
    assert from_file.code == 0, from_file.err
    assert from_file.out == from_input.out
    lines = from_file.out.split("\n")
    assert len(lines) == 6
    assert [line == "" for line in lines] == [False, True, False, True, False, True]
    assert "5 lines, 2 of them empty" in from_file.err
    assert call("predict", tiny_run).out == ""


def test_predict_gives_scores_and_n_best_as_json(call, tiny_run: Path) -> None:
    options = ("--beam", 3, "--n-best", 3, "--length-penalty", 0.6, "--max-new-tokens", 5)
    result = call("predict", tiny_run, *options, "--json", stdin="3 1 2\n\n").json["predictions"]
    assert result[0]["input"] == "3 1 2"
    assert len(result[0]["outputs"]) == 3
    assert result[0]["scores"] == sorted(result[0]["scores"], reverse=True)
    assert result[0]["finished"] == [len(one.split()) < 5 for one in result[0]["outputs"]]
    assert result[1] == {"input": "", "outputs": [], "scores": [], "finished": []}
    plain = call("predict", tiny_run, *options, stdin="3 1 2\n").out
    assert plain.rstrip("\n").split("\t") == result[0]["outputs"]


def test_load_predict_and_trace_in_python(tiny_run: Path) -> None:
    import regard

    run = regard.load(tiny_run)
    assert len(run.predict(["3 1 2", "", "5"])) == 3
    assert run.predict(["3 1 2"], beam=2) == [
        run.predictions(["3 1 2"], decoding={"beam": 2})[0].text
    ]
    trace = run.trace("3 1 2")
    assert trace.tokens["source"] == ["3", "1", "2", "</s>"]
    assert trace.tokens["target"][0] == "<s>"
    weights = trace["decoder.layers.1.cross_attention"]["weights"]
    assert weights.shape == (1, 4, len(trace.tokens["output"]), 4)
    assert "encoder.layers.0.self_attention" in trace.masks()
    assert trace.shapes()["source_embedding.output"] == (1, 4, 16)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["model.n_head=2"], ["unknown key 'model.n_head'", "did you mean 'n_heads'"]),
        (["modle.n_heads=2"], ["unknown key 'modle'", "did you mean 'model'"]),
        (["model.kind=perceptron"], ["model.kind='perceptron' is not one of transformer"]),
        (["model.norm=middle"], ["model.norm='middle' is not one of pre, post"]),
        (["model.d_model=wide"], ["model.d_model='wide'", "a whole number in decimal"]),
        (["model.dropout=1.5"], ["model.dropout=1.5", "less than 1"]),
        (["train.lr=inf"], ["train.lr='inf'", "less than or equal to 1000"]),
        (["train.lr=nan"], ["train.lr='nan'"]),
        (["model.n_heads=5"], ["n_heads=5 does not divide d_model=64", "1, 2, 4, 8, 16, 32 or 64"]),
        (["train.steps=0"], ["train.steps=0", "greater than or equal to 1"]),
        (["train.steps"], ["write key=value"]),
        (["model=3"], ["model is a section", "model.name=value"]),
        (["train.steps=yes"], ["train.steps='yes'", "a whole number in decimal"]),
        (["train.steps=true"], ["train.steps=true: a number is expected"]),
        (["seed=2024-13-45"], ["seed='2024-13-45'", "a whole number in decimal"]),
        (["model.kind=lstm", "model.d_model=33"], ["d_model=33 is odd"]),
        (["model.attention=soft"], ["model.attention='soft' is not one of none, bahdanau"]),
        (["seed.deep=3"], ["seed is not a section"]),
        (["train.weight_decay=0.1"], ["weight_decay needs optimizer=adamw"]),
        (["train.cycles=2", "train.schedule=linear"], ["cycles=2 needs schedule=cosine"]),
        (["train.optimizer=sgd"], ["train.optimizer='sgd' is not one of adam, adamw, muon"]),
        (
            ["task=lm", "model.kind=lstm", "train.metric=loss", "train.shares=2"],
            ["train.shares=2: in lm, a recurrent model carries a state", "leave it at 1"],
        ),
        (["decode.n_best=9"], ["n_best=9 is more than the 1 that greedy keeps"]),
        (["data.train=nowhere.tsv"], ["data.train='nowhere.tsv' is neither a generator"]),
        (["data.max_length=1"], ["data.max_length=1 is less than the 2 digits"]),
        (["schema_version=99"], ["made by a newer Regard (schema 99"]),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_written(
    call, tmp_path, settings, words
) -> None:
    arguments = [word for setting in settings for word in ("-s", setting)]
    refused(call("train", "sort", *arguments), *words)
    assert not (tmp_path / "runs").exists()


def test_an_unknown_recipe_or_file_is_refused(call, tmp_path: Path) -> None:
    refused(call("train", "sorted"), "There is no recipe 'sorted' (did you mean 'sort'?)", "copy")
    refused(call("train", "mine.yaml"), "mine.yaml cannot be read: No such file")
    (tmp_path / "mine.yaml").write_text("train: [")
    refused(call("train", "mine.yaml"), "mine.yaml:1: not YAML")
    (tmp_path / "mine.yaml").write_text("seed: 2\nseed: 3\n")
    refused(call("train", "mine.yaml"), "mine.yaml:2: not YAML: the key 'seed' occurs twice")
    (tmp_path / "mine.yaml").write_text("just words")
    refused(call("train", "mine.yaml"), "mine.yaml holds no configuration")
    (tmp_path / "mine.yaml").write_text("seed: 2")
    refused(call("train", "mine.yaml"), "mine.yaml: the key 'train' is missing")
    (tmp_path / "mine.yaml").write_text("train: {steps: 2, batch_size: 8}")
    refused(call("train", "mine.yaml"), "mine.yaml: the key 'data.train' is missing: name a file")


def test_data_that_is_no_directory_or_is_not_needed_is_refused(
    call, tmp_path: Path, tiny_run: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for command in (("train", "sort"), ("data", "check", "sort"), ("evaluate", tiny_run)):
        refused(call(*command, "--data", "nope"), "--data 'nope' does not exist: name the")
        refused(call(*command, "--data", "file"), "--data 'file' is not a directory")
        refused(
            call(*command, "--data", "folder"),
            "--data: data.directory=",
            "not for the generator sort, which needs no directory. Leave it out.",
        )
    assert not (tmp_path / "runs").exists()


def test_a_mistyped_command_or_choice_is_named_in_a_sentence(call, tiny_run: Path) -> None:
    result = call("trian", "sort")
    refused(result, "'trian'", "Did you mean 'train'? See regard --help.")
    result = call("evaluate", tiny_run, "--split", "tset")
    refused(result, "'tset' is not one of 'train', 'valid', 'test'. See regard --help.")
    assert "Value error" not in result.err


def test_a_run_that_is_not_whole_is_refused(call, tiny_run: Path, tmp_path: Path) -> None:
    refused(call("evaluate", "nowhere"), "nowhere is no run directory", "regard train")
    (tmp_path / "empty").mkdir()
    refused(call("evaluate", "empty"), "empty holds no run: config.yaml is missing")

    def broken(name: str, change) -> Path:
        run = tmp_path / name.replace(" ", "-")
        shutil.copytree(tiny_run, run)
        change(run)
        return run

    def edited(file: str, old: str, new: str):
        def change(run: Path) -> None:
            text = (run / file).read_text()
            assert old in text
            (run / file).write_text(text.replace(old, new))

        return change

    def truncated(run: Path) -> None:
        file = run / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-100])

    run = broken("no weights", lambda run: (run / "model.safetensors").unlink())
    refused(call("predict", run), "model.safetensors is missing")
    refused(call("predict", broken("short", truncated)), "model.safetensors is damaged")
    run = broken("no tokenizer", lambda run: (run / "tokenizer.json").unlink())
    refused(call("predict", run), "tokenizer.json is missing")
    run = broken("no json", lambda run: (run / "tokenizer.json").write_text("{"))
    refused(call("predict", run), "tokenizer.json is not a tokenizer")
    run = broken("other tokenizer", edited("tokenizer.json", '"<unk>"', '"<UNK>"'))
    refused(call("predict", run), "trained with another tokenizer")
    run = broken("newer", edited("config.yaml", "schema_version: 2", "schema_version: 3"))
    refused(call("predict", run), "made by a newer Regard (schema 3")
    run = broken("other width", edited("config.yaml", "d_model: 16", "d_model: 32"))
    refused(call("predict", run), "another model configuration")
    run = broken("fewer heads", edited("config.yaml", "n_heads: 4", "n_heads: 2"))
    refused(call("predict", run), "was trained with another model configuration")

    def flipped(run: Path) -> None:
        file = run / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-4] + b"\x00\x00\x80\x3f")

    refused(call("predict", broken("flipped", flipped)), "its hash differs")
    run = broken("fewer layers", edited("config.yaml", "n_layers: 2", "n_layers: 1"))
    refused(call("predict", run), "another model configuration")


def test_a_line_that_cannot_be_read_whole_is_named(call, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("1 2\n\n3 12 4\n")
    refused(
        call("predict", tiny_run, "in.txt"), "in.txt:3: '12' is not in the vocabulary", "0 1 2 3"
    )
    refused(call("predict", tiny_run, stdin="1 2\n3 x\n"), "standard input:2: 'x' is not in")
    refused(call("predict", tiny_run, stdin="<s> 3\n"), "standard input:1: '<s>' is not in")
    long = " ".join("1" * 21)
    refused(
        call("predict", tiny_run, stdin=f"1\n{long}\n"), "standard input:2: 21 tokens", "up to 20"
    )
    refused(call("predict", tiny_run, stdin=b"1 2\n\xff\n"), "standard input:2: not UTF-8")
    refused(call("predict", tiny_run, "gone.txt"), "gone.txt cannot be read: No such file")
    refused(call("predict", tiny_run, "--beam", 0, stdin="1"), "decode.beam=0")
    refused(call("predict", tiny_run, "--beam", "x", stdin="1"), "Invalid value for '--beam'")
    refused(call("predict", tiny_run, "--bogus"), "No such option: --bogus")
    refused(call("predict", tiny_run, "--length-penalty", 1000), "decode.length_penalty=1000.0")
    greedy = ("--strategy", "greedy", "--beam", 3)
    refused(call("predict", tiny_run, *greedy), "beam goes with beam search")
    refused(call("predict", tiny_run, "--n-best", 9, stdin="1"), "n_best=9 is more than the 4")


def test_a_name_that_is_not_utf8_is_refused_before_anything_is_trained(call, tiny_run) -> None:
    refused(call("train", "sort", "--out", "runs/\udce9"), r"'--out': runs/\xe9 is not UTF-8 text")
    refused(call("export", tiny_run, "--to", "onnx", "--out", "\udce9"), r"\xe9 is not UTF-8 text")
    refused(call("predict", tiny_run, "--prefix", "\udce9"), r"'--prefix': \xe9 is not UTF-8")


def test_a_file_whose_name_is_not_utf8_is_read_all_the_same(call, tiny_run, tmp_path) -> None:
    (tmp_path / "caf\udce9.txt").write_text("3 1 2\n")
    assert call("predict", tiny_run, "caf\udce9.txt").out.count("\n") == 1
    (tmp_path / "caf\udce9.txt").write_text("3 1 x\n")
    refused(call("predict", tiny_run, "caf\udce9.txt"), r"caf\xe9.txt:1: 'x' is not in")


def test_learned_positions_limit_what_is_asked_for(call, tiny, tmp_path: Path) -> None:
    call("train", "sort", *tiny, "-s", "model.positions=learned", "--out", "learned")
    result = call("predict", "learned", "--max-new-tokens", 500, stdin="1 2\n")
    refused(result, "max_new_tokens=500 is more than the 24 positions")
    result = call("evaluate", "learned", "--max-new-tokens", 50)
    refused(result, "max_new_tokens=50 is more than the 24 positions")
    assert call("predict", "learned", stdin="1 2\n").code == 0


def test_help_teaches_and_is_quick(call) -> None:
    assert "Begin with: regard recipes" in call("--help").out
    for command in ("recipes", "train", "evaluate", "predict", "verify"):
        assert call(command, "--help").code == 0
    quick, torch = (
        min(_seconds(arguments) for _ in range(3))
        for arguments in (["-m", "regard", "--help"], ["-c", "import torch"])
    )
    assert quick < 0.5 * torch


def _seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    return time.perf_counter() - began
