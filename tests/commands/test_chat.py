"""regard chat: one line is one message, the answer appears as it is generated."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.commands.chat import shown
from regard.runs.chat import Conversation
from regard.runs.importing import import_run
from regard.system.errors import UserError
from tests.command import refused
from tests.data.test_chat_template import CHATML
from tests.pretrained.foreign import byte_pairs, foreign_model

CONTEXT = 96


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says nonsense, and has a chat template."""
    folder = tmp_path_factory.mktemp("chatty")
    foreign_model("llama", vocab_size=300, tie_word_embeddings=True).save_pretrained(folder / "hf")
    byte_pairs().save(str(folder / "hf" / "tokenizer.json"))
    settings = {"eos_token": "<|end|>", "bos_token": "<|open|>", "chat_template": CHATML}
    (folder / "hf" / "tokenizer_config.json").write_text(json.dumps(settings))
    import_run(str(folder / "hf"), folder / "run")
    return folder / "run"


def test_the_pieces_of_an_answer_are_the_text_that_is_generated(chatty: Path) -> None:
    run = regard.load(chatty)
    conversation = Conversation(run, system="Be brief.", max_new_tokens=8)
    pieces = list(conversation.answer("Hello"))
    assert len(pieces) > 1
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    prompt = conversation.template.prompt(messages)
    (ids,) = run.task.tokenizer.encode([""])
    assert ids == []
    expected = _greedy(run, prompt, 8)
    assert "".join(pieces) == run.tokenizer.decode(expected)
    assert conversation.turns[1] == {"role": "assistant", "content": "".join(pieces)}


def _greedy(run: Any, prompt: list[int], count: int) -> list[int]:
    """The most probable token each time, all computed anew."""
    import torch

    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            logits = run.model(torch.tensor([tokens]))[0, -1]
            logits[list(run.tokenizer.never_generated)] = -torch.inf
            tokens.append(int(logits.argmax()))
            if tokens[-1] == run.tokenizer.end:
                return tokens[len(prompt) : -1]
    return tokens[len(prompt) :]


def test_the_oldest_turns_are_dropped_when_the_context_is_full(call, chatty: Path) -> None:
    conversation = Conversation(regard.load(chatty), max_new_tokens=4)
    for _ in range(4):
        list(conversation.answer("How are you, my dear old friend?"))
    assert 0 < conversation.dropped <= 6
    assert conversation.dropped % 2 == 0
    assert len(conversation.prompt("And now?")) <= CONTEXT - 4
    told = call(
        "chat", chatty, "--max-new-tokens", 4, stdin="How are you, my dear old friend?\n" * 3
    )
    assert told.code == 0
    assert "The context is full: the first" in told.err
    with pytest.raises(UserError, match=r"The message has \d+ tokens with its template"):
        conversation.prompt("a b c " * 100)


def test_lines_of_another_program_are_answered_in_order(call, chatty: Path) -> None:
    result = call("chat", chatty, "--max-new-tokens", 6, stdin="Hello\n\nAnd you?\n")
    assert result.code == 0, result.err
    conversation = Conversation(regard.load(chatty), max_new_tokens=6)
    answers = ["".join(conversation.answer(line)) for line in ("Hello", "And you?")]
    assert result.out == "".join(shown(answer) + "\n" for answer in answers)


def test_sampled_answers_depend_on_the_seed_alone(call, chatty: Path) -> None:
    options = ("--temperature", 5, "--max-new-tokens", 8)
    once, again, other = (
        call("chat", chatty, *options, "--seed", seed, stdin="Hello\n").out for seed in (1, 1, 2)
    )
    assert once == again != other


def test_what_cannot_be_a_conversation_is_refused(call, chatty: Path, tiny_run: Path) -> None:
    refused(call("chat", tiny_run, stdin="3 1 2\n"), "has no chat template")
    refused(call("chat", chatty, "--beam", 3, stdin="Hello\n"), "strategy=beam revises them")
    refused(call("chat", chatty, "--n-best", 2, "--temperature", 1, stdin="Hello\n"), "n_best=2")
    assert call("chat", chatty, "--min-length-ratio", 0.1, stdin="Hello\n").code == 0
    refused(call("chat", chatty, stdin=b"\xff\n"), "standard input:1: ")
    refused(call("chat", chatty, "--max-new-tokens", 90, stdin="Hello\n"), "Shorten it, or pass")


def test_a_changed_template_does_not_belong_to_its_weights(
    call, chatty: Path, tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(chatty, tmp_path / "copy")
    (tmp_path / "copy" / "chat_template.jinja").write_text("{{ ''.__class__ }}")
    refused(call("chat", tmp_path / "copy", stdin="Hello\n"), "another chat_template than")


def test_a_model_that_was_tuned_still_talks(call, chatty: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("To be or not to be.\n" * 20)
    splits = [f"data.{split}=text.txt" for split in ("train", "valid", "test")]
    keys = [*splits, "data.max_length=80", "train.steps=2", "train.batch_size=2"]
    options = [word for key in [*keys, "train.eval_every=2"] for word in ("-s", key)]
    tuned = call("train", chatty / "config.yaml", "--init", chatty, "--out", "new", *options)
    assert tuned.code == 0, tuned.err
    assert call("chat", "new", "--max-new-tokens", 4, stdin="Hello\n").code == 0


def test_ctrl_c_stops_an_answer_and_ctrl_d_ends(chatty: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "chat", chatty, "--max-new-tokens", "20"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # A shell lets what it starts in the background ignore Ctrl-C, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env=os.environ | {"OMP_NUM_THREADS": "1", "TERM": "dumb"},
    )
    os.close(theirs)
    try:
        _until(ours, b"\n> ")
        os.write(ours, b"Hello\n")
        _until(ours, b"\n> ")
        # Again while nothing is shown: Python may not be waiting for a key yet.
        _until(ours, b"\n> ", poke=lambda: process.send_signal(signal.SIGINT))
        os.write(ours, b"And you?\n")
        _until(ours, b"\n> ")
        os.write(ours, b"\x04")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        os.close(ours)


def _until(terminal: int, text: bytes, *, poke: Callable[[], None] = lambda: None) -> None:
    """Read what the terminal shows up to a text; poke: what is done while it shows nothing."""
    shown, deadline = b"", time.monotonic() + 60
    while text not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096)
        else:
            poke()


def test_ctrl_c_stops_one_answer_and_the_next_is_given(
    call, chatty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Conversation.answer

    def interrupted(self: Conversation, text: str) -> Generator[str, None, None]:
        if text == "Hello":
            yield "Hm"
            raise KeyboardInterrupt
        yield from whole(self, text)

    monkeypatch.setattr(Conversation, "answer", interrupted)
    result = call("chat", chatty, "--max-new-tokens", 4, stdin="Hello\nAnd you?\n")
    assert result.code == 0, result.err
    first, second, *_ = result.out.split("\n")
    assert first == "Hm"
    assert second


def test_an_answer_that_is_stopped_is_kept_as_far_as_it_was_read(chatty: Path) -> None:
    conversation = Conversation(regard.load(chatty), max_new_tokens=20)
    answer = conversation.answer("Hello")
    first = next(answer)
    answer.close()
    assert conversation.turns[-1] == {"role": "assistant", "content": first}
