"""regard generate: one prompt as it grows, files of prompts, constraints, and all strategies."""

import math
from pathlib import Path

import pytest
import torch

from regard import config, load
from regard.runs.trainer import train
from regard.system.errors import UserError
from tests.command import refused
from tests.conftest import without_pictures

TEXT = "the cat sat on the mat.\nthe dog ran to the cat.\n\na cat ate the rat.\n" * 8
YAML = """
task: lm
data: {train: text.txt, valid: text.txt, test: text.txt, max_length: 24}
tokenizer: {kind: chars}
model: {kind: gpt, d_model: 24, n_layers: 2, n_heads: 2, d_ff: 48, dropout: 0.0}
train: {steps: 40, batch_size: 8, lr: 0.01, warmup: 0, eval_every: 40, save_every: 40}
decode: {max_new_tokens: 30}
"""
STRATEGIES = [
    {},
    {"no_repeat_ngram": 3},
    {"repetition_penalty": 1.4, "presence_penalty": 0.2},
    {"speculate": 3},
    {"beam": 3, "n_best": 3},
    {"beam": 4, "beam_groups": 2, "n_best": 2},
    {"strategy": "beam-sample", "n_best": 2},
    {"strategy": "contrastive"},
    {"top_p": 0.9, "n_best": 2},
    {"strategy": "sample", "speculate": 2},
    {"strategy": "best-of", "best_of": 3, "typical": 0.8},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT, a smaller one for drafts, and an LSTM, trained a little on the same text."""
    folder = tmp_path_factory.mktemp("lm")
    (folder / "text.txt").write_text(TEXT)
    (folder / "lm.yaml").write_text(YAML)
    patch = pytest.MonkeyPatch()
    patch.setattr("regard.look.draw", without_pictures)
    for name, keys in {
        "gpt": [],
        "small": ["model.n_layers=1", "train.steps=10"],
        "lstm": ["model.kind=lstm", "train.steps=10"],
        "other": ["tokenizer.kind=bytes", "train.steps=1"],
    }.items():
        settings = [f"data.directory={folder}", *keys]
        train(config.load(str(folder / "lm.yaml"), settings), folder / name)
    patch.undo()
    return folder


@pytest.mark.parametrize("decoding", STRATEGIES, ids=str)
def test_prompts_of_any_lengths_in_one_batch_are_each_alone(folder: Path, decoding) -> None:
    run, prompts = load(folder / "gpt"), ["the cat", "", "a cat ate the ra", "t"]
    together = run.predictions(prompts, decoding=decoding)
    for number, (prompt, expected) in enumerate(zip(prompts, together, strict=True)):
        (alone,) = run.predictions([prompt], decoding=decoding, first=number)
        assert alone.outputs == expected.outputs
        assert expected.outputs[0].startswith(prompt)
    assert run.predictions(prompts, decoding=decoding) == together


def test_speculation_changes_nothing_but_the_time(folder: Path) -> None:
    run = load(folder / "gpt")
    drafted = run.drafted_by(load(folder / "small"))

    def outputs(run, **decoding) -> list[list[str]]:
        return [one.outputs for one in run.predictions(["the", "a cat "], decoding=decoding)]

    for keys in ({}, {"strategy": "sample", "n_best": 3, "seed": 5}):
        plain = outputs(run, **keys)
        assert outputs(run, speculate=4, **keys) == plain
        assert outputs(drafted, **keys) == plain


def test_a_prompt_is_shown_with_its_continuation_as_that_grows(call, folder: Path) -> None:
    run = load(folder / "gpt")
    result = call("generate", folder / "gpt", "--prompt", "the c")
    assert (result.code, result.out) == (0, run.generate("the c") + "\n")
    pieces = list(run.stream("the c", top_p=0.9, seed=2))
    assert len(pieces) > 3
    assert "the c" + "".join(pieces) == run.generate("the c", top_p=0.9, seed=2)
    sampled = call("generate", folder / "gpt", "--prompt", "the c", "--top-p", 0.9, "--seed", 2)
    assert sampled.out == "the c" + "".join(pieces) + "\n"


def test_a_stop_string_ends_the_text_before_it(call, folder: Path) -> None:
    run, whole = load(folder / "gpt"), load(folder / "gpt").generate("the")
    stop = whole[8:10]
    expected = "the" + whole[3:].partition(stop)[0]
    assert run.generate("the", stop=[stop]) == expected
    assert (
        call("generate", folder / "gpt", "--prompt", "the", "--stop", stop).out == expected + "\n"
    )
    assert call("predict", folder / "gpt", "--stop", stop, stdin="the").out == expected + "\n"


def test_several_outputs_and_files_of_prompts(call, folder: Path, tmp_path: Path) -> None:
    run = load(folder / "gpt")
    expected = run.predictions(["the"], decoding={"strategy": "sample", "n_best": 3})[0].outputs
    result = call("generate", folder / "gpt", "--prompt", "the", "-n", 3)
    assert result.out == "".join(f"── {n}\n{text}\n" for n, text in enumerate(expected, start=1))
    (tmp_path / "prompts.txt").write_text("the\na cat\n")
    of_file = call("generate", folder / "gpt", "--file", "prompts.txt").out.splitlines()
    assert of_file == [
        "── 1, prompt 1",
        run.generate("the"),
        "── 2, prompt 2",
        run.generate("a cat"),
    ]


def test_json_has_texts_and_tokens_with_their_probabilities(call, folder: Path) -> None:
    options = ("--prompt", "the c", "-n", 2, "--json")
    (result,) = call("generate", folder / "gpt", *options).json["predictions"]
    assert result["input"] == "the c"
    for text, tokens, log_p in zip(
        result["outputs"], result["tokens"], result["log_probabilities"], strict=True
    ):
        names = [token["text"] for token in tokens if token["text"] != "</s>"]
        assert "the c" + "".join(names) == text
        assert sum(math.log(token["probability"]) for token in tokens) == pytest.approx(log_p)
        assert all(len(token["alternatives"]) >= 5 for token in tokens)
    assert result["scores"] == pytest.approx(result["log_probabilities"], abs=1e-4)


@pytest.mark.parametrize("strategy", ["greedy", "sample", "beam", "contrastive"])
def test_outputs_match_an_expression_or_are_one_of_a_list(call, folder: Path, strategy) -> None:
    run = folder / "gpt"
    options = ("--prompt", "the ", "--strategy", strategy)
    matched = call("generate", run, *options, "--regex", "(dog|rat)( sat)?").out.strip("\n")
    assert matched.removeprefix("── 1\n") in {
        f"the {animal}{more}" for animal in ("dog", "rat") for more in ("", " sat")
    }
    chosen = call("generate", run, *options, "--choice", "mat.", "--choice", "cat").out.strip("\n")
    assert chosen.removeprefix("── 1\n") in ("the mat.", "the cat")


def test_every_strategy_is_compared_with_human_text(call, folder: Path, tmp_path: Path) -> None:
    options = ("--prompt", "the ", "--compare", "--data", folder / "text.txt", "-n", 2)
    result = call("generate", folder / "gpt", *options, "--save", "c.html", "--json")
    assert result.code == 0, result.err
    human, *others = result.json["strategies"]
    assert (human["name"], human["mass_kept"]) == ("human text", None)
    by_name = {one["name"]: one for one in others}
    assert len(by_name) >= 17
    assert by_name["sampling"]["mass_kept"] == pytest.approx(1, abs=1e-4)
    assert by_name["top-p 0.9"]["mass_kept"] >= 0.9
    for one in others:
        total = sum(sum(map(math.log, row)) for row in one["probabilities"])
        assert one["perplexity"] == pytest.approx(math.exp(-total / one["tokens"]), rel=1e-4)
    page = (tmp_path / "c.html").read_text()
    assert "self-BLEU" in page
    assert "data:image/png;base64," in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_comparison_is_a_table_in_the_terminal(call, folder: Path) -> None:
    result = call("generate", folder / "lstm", "--prompt", "a ", "--compare", "--max-new-tokens", 6)
    assert result.code == 0, result.err
    header, _, first, *_ = result.out.splitlines()
    assert header.split()[:2] == ["strategy", "log"]
    assert first.startswith("greedy")


def test_the_probabilities_of_a_given_text_are_those_of_evaluation(folder: Path) -> None:
    from regard.decoding.scoring import text_log_probabilities

    run = load(folder / "gpt")
    ids = run.task.text("test").ids().tolist()
    end = run.tokenizer.end
    device = torch.device("cpu")
    log_p = text_log_probabilities(run.model, ids, start=end, device=device)
    assert -sum(log_p) / len(ids) == pytest.approx(
        run.evaluate("test")["metrics"]["loss"], rel=1e-4
    )


def test_a_translator_generates_too(call, tiny_run: Path) -> None:
    expected = load(tiny_run).predict(["3 1 2"], max_new_tokens=5)[0]
    options = ("--prompt", "3 1 2", "--max-new-tokens", 5)
    assert call("generate", tiny_run, *options).out == expected + "\n"
    compared = call("generate", tiny_run, *options, "--compare", "--json").json["strategies"]
    assert "contrastive" not in [one["name"] for one in compared]
    refused(
        call("generate", tiny_run, *options, "--compare", "--data", tiny_run / "config.yaml"),
        "only a language model",
    )


WRONG = {
    (
        "--temperature",
        "0",
    ): "decode.temperature=0.0: logits cannot be divided by 0",
    ("--top-p", "1.3"): "decode.top_p=1.3",
    ("--beam", "4", "--top-p", "0.9"): "beam goes with beam search and top_p with sampling",
    ("--strategy", "greedy", "--top-k", "3"): "top_k goes with sampling",
    ("--speculate", "4", "--beam", "2"): "beam goes with beam search and speculate with greedy",
    ("--stop", ""): "an empty text would end every output",
    ("--regex", "(a"): "'(' without its ')'",
    ("--regex", "[0-9]+"): "no text of this run's vocabulary matches it",
    ("--regex", "a", "--choice", "b"): "give one of them",
    ("--choice", "queue"): "'queue' cannot be spelled",
    ("--file", "x"): "give a prompt with --prompt TEXT, or",
    ("--save", "c.html"): "--save goes with --compare",
    ("-n", "0"): "-n 0: at least one output",
    ("-n", "3", "--n-best", "2"): "-n and --n-best are the same",
    ("--compare", "--beam", "3"): "beam belongs to some strategies",
    ("--compare", "--stop", "x"): "--compare takes no stop",
    ("--compare", "--save", "nowhere/c.html"): "nowhere is not a folder",
    ("--strategy", "diverse-beam", "--beam", "5"): "does not divide into beam_groups=2",
}


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_wrong_options_are_refused_in_a_sentence(call, folder: Path, options) -> None:
    refused(call("generate", folder / "gpt", "--prompt", "the", *options), WRONG[options])


def test_runs_that_cannot_do_it_are_refused(call, folder: Path) -> None:
    prompt = ("--prompt", "the")
    refused(
        call("generate", folder / "gpt", *prompt, "--draft", folder / "other"),
        "other has another vocabulary than",
        "a draft model needs the same tokenizer",
    )
    refused(
        call("generate", folder / "lstm", *prompt, "--speculate", 3),
        "speculate=3 needs a model that can go back to an earlier token: a GPT",
    )
    refused(call("generate", folder / "gpt", "--prompt", "the Zoo"), "prompt:1: 'Z' is not in")
    classifier = Path(__file__).parent.parent / "runs" / "old" / "classify-gru"
    refused(call("generate", classifier, *prompt), "does not generate text: its task is classify")
    with pytest.raises(UserError, match="cannot be shown token by token"):
        load(folder / "gpt").stream("the", beam=3)


def test_a_text_with_control_characters_does_not_reach_the_terminal() -> None:
    from regard.commands.terminal import plain_text

    assert plain_text("a\tb\nc\x1b[2J") == "a\tb\nc\\x1b[2J"
