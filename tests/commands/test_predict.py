"""regard predict as a filter: in order, each output as soon as it is ready, with all options."""

import json
import os
import select
import subprocess
from pathlib import Path

import pytest
import torch

import regard
from regard import config
from regard.commands.terminal import print_json
from regard.runs.trainer import train
from regard.system.errors import UserError
from regard.tasks.alignment import align, words_or_characters
from tests.command import refused
from tests.conftest import TINY, TINY_ON_FILES
from tests.forks import Forks


@pytest.fixture(scope="module")
def gru_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model with the same vocabulary."""
    path = tmp_path_factory.mktemp("run") / "gru"
    train(config.load("sort", [*TINY, "model.kind=gru", "seed=2"]), path)
    return path


def started(run: Path, forks: Forks) -> subprocess.Popen:
    return subprocess.Popen(
        [forks.regard, "predict", str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def test_a_line_is_answered_before_the_next_one_comes(tiny_run: Path, forks: Forks) -> None:
    process = started(tiny_run, forks)
    expected = regard.load(tiny_run).predict(["1 2", "3 4 5"])
    answers = []
    for line in (b"1 2\n", b"3 4 5\n"):
        process.stdin.write(line)
        process.stdin.flush()
        answers.append(process.stdout.readline().decode().rstrip("\n"))  # would wait forever
    out, err = process.communicate()
    assert answers == expected
    assert (process.returncode, out) == (0, b"")
    assert b"2 lines" in err


def test_what_is_no_number_is_null_in_json(capsys: pytest.CaptureFixture) -> None:
    print_json({"metrics": {"loss": float("nan"), "ppl": float("inf"), "bleu": 1.5}})
    assert capsys.readouterr().out == '{"metrics": {"loss": null, "ppl": null, "bleu": 1.5}}\n'


def test_a_closed_pipe_ends_it_without_a_word(tiny_run: Path, forks: Forks) -> None:
    process = started(tiny_run, forks)
    process.stdout.close()
    process.stdin.write(b"1 2\n" * 3000)
    process.stdin.close()
    assert process.wait(timeout=120) == 141
    assert process.stderr.read() == b""


def test_a_line_of_a_named_pipe_is_answered_before_the_next_one_comes(
    tiny_run: Path, tmp_path: Path, forks: Forks
) -> None:
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen(
        [forks.regard, "predict", tiny_run, tmp_path / "pipe"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)  # waits for nobody
    try:
        for line in (b"3 1 2\n", b"2 1\n"):
            os.write(pipe, line)
            assert select.select([process.stdout], [], [], 60)[0]
            assert process.stdout.readline()
        os.close(pipe)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()


def test_a_dash_is_standard_input(call, tiny_run: Path) -> None:
    assert call("predict", tiny_run, "-", stdin="3 1 2\n") == call(
        "predict", tiny_run, stdin="3 1 2\n"
    )


def test_a_bar_on_the_terminal_leaves_the_outputs_where_they_were_sent(
    tiny_run: Path, tmp_path: Path, forks: Forks
) -> None:
    (tmp_path / "lines.txt").write_text("3 1 2\n2 1\n" * 20)
    screen, terminal = os.openpty()
    with (tmp_path / "out.txt").open("w") as out:
        process = subprocess.Popen(
            [forks.regard, "predict", tiny_run, tmp_path / "lines.txt"],
            stdout=out,
            stderr=terminal,
        )
        os.close(terminal)
        shown = b""
        try:
            while block := os.read(screen, 4096):
                shown += block
        except OSError:  # how a terminal ends
            pass
        assert process.wait() == 0
    os.close(screen)
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 40
    assert b"40/40" in shown
    assert b"40 lines" in shown


def test_lines_keep_their_order_and_number_over_many_batches(call, tiny_run: Path) -> None:
    lines = ["1 " * (1 + n * 7 % 13) if n % 5 else "" for n in range(1300)]
    result = call("predict", tiny_run, stdin="\n".join(lines))
    assert result.out.split("\n")[:-1] == regard.load(tiny_run).predict(lines)
    assert "1,300 lines, 260 of them empty" in result.err
    bad = call("predict", tiny_run, stdin="1\n" * 1200 + "x\n")
    assert bad.code == 2
    assert "standard input:1201: 'x' is not in the vocabulary" in bad.err


def test_what_is_drawn_is_a_function_of_the_seed(call, tiny_run: Path) -> None:
    lines = "1 2 3\n\n4 5 6 7\n8 9\n"

    def drawn(*options: object) -> str:
        return call("predict", tiny_run, "--temperature", 2, *options, stdin=lines).out

    assert drawn() == drawn() == drawn("--seed", 0)
    assert drawn("--seed", 1) != drawn()
    assert all(line.count("\t") == 2 for line in drawn("--n-best", 3).splitlines() if line)
    alone = [
        regard.load(tiny_run).predictions([line], decoding={"temperature": 2}, first=number)[0].text
        for number, line in enumerate(lines.splitlines())
    ]
    assert drawn().splitlines() == alone


def test_outputs_can_be_told_how_to_begin_and_how_long_to_be(call, tiny_run: Path) -> None:
    out = call(
        "predict", tiny_run, "--prefix", "7 7", "--max-length-ratio", 3, stdin="1 2\n3\n"
    ).out
    assert all(line.startswith("7 7") for line in out.splitlines())
    exactly = ("--min-length-ratio", 2, "--max-length-ratio", 2)
    assert len(call("predict", tiny_run, *exactly, stdin="1 2 3\n").out.split()) == 6
    refused(call("predict", tiny_run, "--prefix", "zzz", stdin="1"), "prefix: 'zzz' is not in the")
    long = ("--prefix", "1 2 3 4", "--max-new-tokens", 3)
    refused(
        call("predict", tiny_run, *long, stdin="1"), "prefix has 4 tokens, and max_new_tokens=3"
    )
    nothing_left = ("--no-repeat-ngram", 1, "--min-length-ratio", 20, "--beam", 2)
    assert call("predict", tiny_run, *nothing_left, stdin="1 2\n").code == 0
    once = call("predict", tiny_run, "--no-repeat-ngram", 1, stdin="1 1 1 2\n").out.split()
    assert len(once) == len(set(once))


@pytest.mark.parametrize("which", ["tiny_run", "gru_run"])
def test_alignments_pair_words_of_source_and_output(call, which: str, request) -> None:
    run = request.getfixturevalue(which)
    result = call("predict", run, "--align", stdin="1 2 3\n\n")
    text, pairs = result.out.splitlines()[0].split("\t")
    alignment = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
    assert {written for _, written in alignment} == set(range(len(text.split())))
    assert {read for read, _ in alignment} <= {0, 1, 2}
    one = json.loads(call("predict", run, "--align", "--json", stdin="1 2 3\n").out)
    assert one["predictions"][0]["alignment"] == [list(pair) for pair in alignment]


def test_a_line_that_cannot_be_read_can_be_left_empty(call, tiny_run: Path) -> None:
    text = b"3 1 2\n1 \xff\n" + b"1 " * 5_000 + b"\n7\n"
    refused(call("predict", tiny_run, stdin=text), "standard input:2: not UTF-8 text")
    result = call("predict", tiny_run, "--on-bad-line", "skip", stdin=text)
    assert result.code == 0, result.err
    first, second, third, last = result.out.splitlines()
    assert [bool(one) for one in (first, second, third, last)] == [True, False, False, True]
    assert "standard input:3: 5000 tokens" in result.err
    assert "4 lines, 2 of them empty, 2 of these because they cannot be read" in result.err
    alone = call("predict", tiny_run, stdin="3 1 2\n7\n").out.splitlines()
    assert [first, last] == alone
    completed = call("predict", tiny_run, "--on-bad-line", "skip", "--json", stdin=text).json
    assert [len(one["outputs"]) for one in completed["predictions"]] == [1, 0, 0, 1]


def test_chinese_is_aligned_by_its_characters() -> None:
    tokens = {1: "我", 2: "喜欢", 3: "书", 4: "I", 5: " like", 6: " books"}
    chinese, english = (words_or_characters(language) for language in ("zh-CN", "en"))
    alignment = align(
        torch.eye(3),
        [1, 2, 3],
        [4, 5, 6],
        source_words=lambda ids: chinese("".join(tokens[one] for one in ids)),
        output_words=lambda ids: english("".join(tokens[one] for one in ids)),
    )
    assert alignment == [(0, 0), (1, 1), (2, 1), (3, 2)]


def test_runs_write_together_if_they_have_one_vocabulary(
    call, tiny_run: Path, gru_run: Path, tmp_path: Path
) -> None:
    both = call("predict", tiny_run, "--ensemble", gru_run, stdin="3 1 2\n")
    assert both.code == 0
    short = ("--split", "valid", "--max-new-tokens", 1, "--json")
    scored = call("evaluate", tiny_run, "--ensemble", gru_run, *short).json
    alone = [call("evaluate", run, *short).json for run in (tiny_run, gru_run)]
    # The mean of probabilities is never worse than the worse of two, by the loss.
    assert scored["metrics"]["loss"] < max(one["metrics"]["loss"] for one in alone)
    call(
        "train",
        "sort",
        *[w for s in TINY for w in ("-s", s)],
        "-s",
        "tokenizer.joint=false",
        "-s",
        "model.tie_embeddings=none",
        "--out",
        "other",
    )
    refused(call("predict", tiny_run, "--ensemble", "other", stdin="1"), "another vocabulary than")
    refused(call("predict", tiny_run, "--ensemble", "gone", stdin="1"), "gone is no run directory")


def test_options_that_do_not_go_together_are_refused(call, tiny_run: Path) -> None:
    refused(call("predict", tiny_run, "--beam", 3, "--top-k", 5), "beam goes with beam search and")
    greedy = ("--strategy", "greedy")
    refused(call("predict", tiny_run, *greedy, "--seed", 3), "seed goes with sampling, but")
    refused(call("predict", tiny_run, "--temperature", 0), "decode.temperature=0")
    refused(call("predict", tiny_run, "--top-p", 2), "decode.top_p=2")
    refused(call("predict", tiny_run, "--no-repeat-ngram", -1), "decode.no_repeat_ngram=-1")


def test_a_run_with_few_positions_comes_first(call, tiny, tiny_run: Path) -> None:
    call("train", "sort", *tiny, "-s", "model.positions=learned", "--out", "learned")
    first = call("predict", "learned", "--ensemble", tiny_run, stdin="1 2\n")
    assert first.code == 0
    refused(call("predict", tiny_run, "--ensemble", "learned", stdin="1"), "name it first")


def test_only_a_translator_aligns(tmp_path: Path) -> None:
    (tmp_path / "texts.tsv").write_text("a b\tx\nc d\ty\n" * 4)
    files = [f"data.{split}=texts.tsv" for split in ("train", "valid", "test")]
    settings = [
        *TINY_ON_FILES,
        *files,
        f"data.directory={tmp_path}",
        "task=classify",
        "model.kind=gru",
    ]
    made, _ = train(config.load("sort", settings), tmp_path / "run")
    with pytest.raises(UserError, match=r"align is for task=translate; this .* is classify"):
        made.predictions(["a b"], aligned=True)
    with pytest.raises(UserError, match="cannot be part of an ensemble: its task is"):
        made.together_with([made])


def test_memory_that_runs_out_is_a_sentence(call, tiny_run: Path, monkeypatch) -> None:
    def full(*given, **options):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    monkeypatch.setattr("regard.tasks.generating.search", full)
    refused(
        call("predict", tiny_run, "--beam", 900, stdin="1 2\n3\n"),
        "not enough memory for 2 lines of up to 3 tokens at a time. Nothing that was saved is lost."
        " Try a smaller decode.beam",
    )
