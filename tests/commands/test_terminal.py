"""Texts that reach the terminal: one clean line, whatever is in them and wherever they go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.commands import terminal
from regard.commands.terminal import end_well, one_line, resume_command
from regard.system.errors import UserError
from tests.command import refused


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("runs/caf\udce9", r"runs/caf\xe9"),
        ("half of an emoji: \ud83d", r"half of an emoji: \ud83d"),
        ("a\nb\r\nc\td", r"a\nb\r\nc\td"),
        ("\x1b[31mred\x00", r"\x1b[31mred\x00"),
        ("a\u2028b\u202ec\x85", r"a\u2028b\u202ec\x85"),
        ("日本 é 👩‍🚀 ‏עברית", "日本 é 👩‍🚀 ‏עברית"),
    ],
)
def test_whatever_would_break_a_line_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_the_command_that_continues_is_read_by_a_shell_as_it_was_given() -> None:
    words = ["train", "it's\n", "caf\udce9 \\x", "a b", "plain"]
    command = resume_command(words)
    assert one_line(command) == command
    printed = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command.removeprefix('regard ')}"], capture_output=True
    ).stdout
    assert printed.decode(errors="surrogateescape").split("\0") == [*words, "--resume", ""]


def failing(error: BaseException):
    def command(**_: object) -> int:
        raise error

    return command


def ended(capfd: pytest.CaptureFixture, error: BaseException) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        end_well(failing(error))
    return end.value.code, capfd.readouterr().err


def test_a_message_is_one_line_whatever_is_in_it(capfd) -> None:
    code, message = ended(capfd, UserError("the class 'a\nb\udcff' is unknown\r."))
    assert (code, message) == (2, "regard: the class 'a\\nb\\xff' is unknown\\r.\n")


class PanicException(BaseException):
    """No Exception, as what libraries in Rust raise."""


@pytest.mark.parametrize("error", [ZeroDivisionError("1/0"), KeyError("x"), PanicException("oh")])
def test_what_nobody_caught_is_called_a_defect_and_its_traceback_is_kept(
    capfd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["regard", "predict", "runs/a b", "\udcff"])
    code, message = ended(capfd, error)
    (kept,) = tmp_path.glob("regard-*.txt")
    assert code == 1
    assert message.count("\n") == 1
    assert "a defect of Regard" in message
    assert str(kept) in message
    text = kept.read_text()
    assert type(error).__name__ in text
    assert "Traceback" in text
    assert "regard predict 'runs/a b'" in text
    assert f"Python {sys.version_info.major}." in text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "not enough memory"),
        (RecursionError("maximum recursion depth"), "nested too deep"),
    ],
)
def test_memory_and_nesting_have_sentences_of_their_own(capfd, monkeypatch, tmp_path, error, words):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, message = ended(capfd, error)
    assert code == 1
    assert words in message
    assert "defect" not in message
    assert len(list(tmp_path.glob("regard-*.txt"))) == 1


def test_a_traceback_that_cannot_be_kept_is_told(capfd, monkeypatch) -> None:
    def full(**_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("tempfile.mkstemp", full)
    code, message = ended(capfd, ZeroDivisionError("1/0"))
    assert (code, message.count("\n")) == (1, 1)
    assert "test_terminal.py" in message


@pytest.mark.parametrize("command", [["recipes"], ["--version"], [], ["train", "--help"]])
def test_what_is_printed_needs_a_standard_output(call, monkeypatch, command: list[str]) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    refused(call(*command), "there is no standard output")


@pytest.mark.parametrize("command", ["predict", "evaluate", "verify"])
def test_a_closed_output_is_noticed_before_a_run_is_opened(call, monkeypatch, command) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    refused(call(command, "no/such/run"), "there is no standard output")


def test_commands_that_print_nothing_do_without_a_standard_output(call, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    refused(call("train", "no-such-recipe"), "There is no recipe")


def shell(command: str, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, **options)


def test_a_closed_or_full_output_is_one_sentence_of_the_process() -> None:
    recipes = f"{sys.executable} -m regard recipes"
    closed, full = shell(f"{recipes} >&-"), shell(f"{recipes} >/dev/full")
    assert (closed.returncode, closed.stderr.count("\n")) == (2, 1)
    assert "there is no standard output" in closed.stderr
    assert (full.returncode, full.stderr) == (2, "regard: output: No space left on device.\n")


def test_an_error_that_cannot_be_told_changes_no_code() -> None:
    python = f"{sys.executable} -m regard"
    for stderr in ("2>/dev/full", "2>&-"):
        assert shell(f"{python} recipes {stderr}").returncode == 0
        assert shell(f"{python} train nothing {stderr}").returncode == 2


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """Else a library that prints would print into the file."""
    program = (
        "from regard.commands.terminal import end_well\n"
        "def command(**_):\n"
        "    file = open('made', 'w')\n"
        "    return 0 if file.fileno() > 2 else 3\n"
        "end_well(command)"
    )
    result = subprocess.run(
        ["bash", "-c", f'exec {sys.executable} -c "$0" <&- >&- 2>&-', program], cwd=tmp_path
    )
    assert result.returncode == 0


def test_progress_cannot_fail(tmp_path: Path) -> None:
    program = (
        "from types import SimpleNamespace as N\n"
        "from regard.training.progress import ShowProgress\n"
        "from regard.commands.terminal import end_well\n"
        "def command(**_):\n"
        "    with ShowProgress(steps=3) as shown:\n"
        "        shown.evaluated({'step': 1, 'valid': {'loss': 1.0}, 'best': True})\n"
        "        open('done', 'w').close()\n"
        "    return 0\n"
        "end_well(command)"
    )
    for stderr in ("2>/dev/full", "2>&-"):
        (tmp_path / "done").unlink(missing_ok=True)
        result = subprocess.run(
            ["bash", "-c", f'{sys.executable} -c "$0" {stderr}', program],
            cwd=tmp_path,
            env=os.environ,
        )
        assert result.returncode == 0
        assert (tmp_path / "done").exists()


def test_every_message_goes_through_one_function() -> None:
    """What another function prints to standard error might break a line, or fail."""
    for file in Path(terminal.__file__).parent.glob("*.py"):
        if file.name != "terminal.py":
            assert "sys.stderr" not in file.read_text(), file
