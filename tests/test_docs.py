"""Every command and every program in the documents runs, in the order in which it is read.

Stand-ins keep this short: what is trained is trained for a few steps, and evaluated on valid;
`make` and the benchmarks show their plan or their help instead of doing their work, and so does
`pip`, whose two commands the Makefile runs; torchrun's processes are forks, which need not import
torch once more; and DIR holds a few sentences.
"""

import itertools
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard import config
from tests.conftest import TINY, TINY_ON_FILES

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")])
CHINESE = [document for document in DOCUMENTS if document.name.endswith(".zh-CN.md")]
"""They show the same commands as the English ones, which is tested; so theirs are not run twice."""


def blocks(document: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a document that can be run: (language, text)."""
    matches = re.findall(
        r"^```(\w+)\n(.*?)^```", document.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    return [(language, text) for language, text in matches if language in ("bash", "python")]


def shortened(line: str) -> str:
    """The command as the test runs it."""
    if re.match(r"(torchrun .* -m )?regard train ", line) and "--keys" not in line:
        # What has learned nothing would write on and on, and a picture of it takes long to draw.
        settings = [*(TINY if "regard train sort" in line else TINY_ON_FILES)]
        settings += [] if "parity" in line else ["decode.max_new_tokens=10"]
        return " ".join([line, *(f"-s {setting}" for setting in settings)])
    if line.startswith("regard evaluate ") and "-s " not in line:
        # Valid is smaller than the test set, and three tokens are enough to be scored.
        return f"{line} --split valid" + ("" if "parity" in line else " --max-new-tokens 3")
    if line.startswith("pip install "):
        return "python -m pip install --help"
    if line.startswith("make "):
        return f"make -n -C {shlex.quote(str(ROOT))} {line.removeprefix('make ')}"
    return line


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", sorted({*DOCUMENTS} - {*CHINESE}), ids=name)
def test_every_command_in_the_documents_runs(
    document: Path, tmp_path: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_run, tmp_path / "runs" / "sort")
    corpus = tmp_path / "DIR"  # stands in for a corpus that is not part of the project
    corpus.mkdir()
    for split, language in itertools.product(("train", "val", "test_2016_flickr"), ("en", "de")):
        lines = "".join(f"Two {language} dogs, {n}.\n" for n in range(20))
        (corpus / f"{split}.{language}").write_text(lines)
    (corpus / "cmn.txt").write_text("".join(f"{n} dogs\t{n} 狗\tme\n" for n in range(200)))
    commands: list[tuple[str, str]] = []
    for language, text in blocks(document):
        if language == "python":
            commands.append((language, text))
            continue
        for line in text.splitlines():
            command = line.split("  #")[0].strip()
            if command == "regard train sort":
                commands.append(("bash", "rm -r runs/sort"))
            if command.startswith("python -m benchmarks."):
                _ask_for_help(command.split()[2], monkeypatch)
            else:
                commands.append(("bash", shortened(command)))
    if commands:
        _run(commands, tmp_path)


def _ask_for_help(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a process of its own, which would take two seconds to import torch."""
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(module, run_name="__main__")
    assert end.value.code == 0


def _run(commands: list[tuple[str, str]], folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "tests.forks"],
        cwd=folder,
        env=os.environ | own,
        input="".join(json.dumps(command) + "\n" for command in commands),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize("document", CHINESE, ids=name)
def test_a_translated_document_shows_the_same_commands(document: Path) -> None:
    english = document.with_name(document.name.replace(".zh-CN", ""))
    shown = [
        [(language, re.sub(r"#.*", "", text).split()) for language, text in blocks(one)]
        for one in (document, english)
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) >= 3


def test_every_key_stands_in_the_documents() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    for key, values, default, meaning in config.describe():
        values = values.replace("|", "\\|")
        assert f"| `{key}` | {values} | {default} | {meaning} |" in text


def test_every_link_in_the_documents_leads_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document}: {target}"


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|yaml))`", text))
    assert len(named) > 20
    assert not [
        path for path in named if not any((ROOT / b / path).exists() for b in ("", "regard"))
    ]
