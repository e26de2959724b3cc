"""What all tests share. jaxtyping's checker is on (see pyproject.toml): a wrong shape fails."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from regard.system.waiting import adapt_waiting
from tests.shapes import check_shapes_alone

adapt_waiting()  # as the command does
check_shapes_alone()

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.command import Result  # noqa: E402
from tests.forks import Forks  # noqa: E402
from tests.held_out import ALL, HELD_OUT, hold_out_few  # noqa: E402

torch.set_num_threads(1)  # two test workers share two cores
hold_out_few()
settings.register_profile("regard", deadline=None, max_examples=15, derandomize=True)
settings.load_profile("regard")


SLOW = (
    "tests/commands/",
    "tests/data/test_chat_template.py",
    "tests/data/test_corpus.py::test_memory",
    "tests/data/test_generators.py",
    "tests/data/test_pronunciations.py",
    "tests/data/test_synthetic.py::test_held_out",
    "tests/data/test_unreadable.py",
    "tests/decoding/test_constraint.py",
    "tests/decoding/test_contrastive.py",
    "tests/decoding/test_readers.py",
    "tests/decoding/test_speculation.py",
    "tests/equalities/",
    "tests/fuzz/",
    "tests/models/test_seq2seq.py::test_a_run",
    "tests/models/test_seq2seq.py::test_the_same_loop",
    "tests/nn/test_embedding.py::test_the_padding_row_stays_zero_when_compiled",
    "tests/nn/test_int8.py",
    "tests/nn/test_refusals.py",
    "tests/pretrained/",
    "tests/runs/",
    "tests/search/",
    "tests/system/test_memory.py",
    "tests/system/test_ranks.py",
    "tests/system/test_waiting.py",
    "tests/tasks/",
    "tests/test_docs.py",
    "tests/training/",
)
"""Tests that train, start processes, compare whole models or try all of a search's options:
`make check` leaves them out."""
QUICK = ("tests/training/test_schedules.py", "tests/training/test_loss.py")
"""Files among those that take a second or two."""


def _is_slow(node: str) -> bool:
    return node.startswith(SLOW) and not node.startswith(QUICK)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make check` does not import files that are slow as a whole, nor what they import."""
    if config.option.markexpr != "not slow" or not collection_path.is_file():
        return None
    return _is_slow(collection_path.relative_to(config.rootpath).as_posix()) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests; the longest first, so that no worker is left alone with them."""
    for item in items:
        if _is_slow(item.nodeid):
            item.add_marker("slow")
    items.sort(key=lambda item: "test_docs" not in item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["REGARD_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _alike() -> Iterator[None]:
    """Every test begins alike, after one that used CTranslate2 too, which sets its own threads."""
    torch.manual_seed(0)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def all_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many held-out examples as there are, in this process."""
    for split, count in ALL.items():
        monkeypatch.setitem(HELD_OUT, split, count)


def without_pictures(run: object) -> list[Path]:
    """In place of `regard.look.draw`, where pictures are not what is tested."""
    return []


@pytest.fixture
def two_threads() -> None:
    """Torch may use two threads in this test."""
    torch.set_num_threads(2)


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Programs that need not import torch anew."""
    forks = Forks(tmp_path_factory.mktemp("forks"))
    yield forks
    forks.close()


@pytest.fixture
def regard(tmp_path: Path, forks: Forks):
    """Runs the command in a folder of its own: `regard("train", "sort", stdin=…)`."""

    def call(*arguments: str, stdin: str | bytes = "", **options) -> subprocess.CompletedProcess:
        text = isinstance(stdin, str)
        return subprocess.run(
            [forks.regard, *map(str, arguments)],
            input=stdin,
            text=text,
            capture_output=True,
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            timeout=300,
            **options,
        )

    return call


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture,
    tmp_path: Path,
    request: pytest.FixtureRequest,
):
    """`call("predict", run, stdin="3 1 2")` in a folder of its own.

    What is trained is drawn in tests with the mark `pictures` alone: it takes longer than training.
    """
    from regard.commands.app import main

    monkeypatch.chdir(tmp_path)
    if request.node.get_closest_marker("pictures") is None:
        monkeypatch.setattr("regard.look.draw", without_pictures)

    def run(*arguments: object, stdin: str | bytes = b"") -> Result:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        result = capfd.readouterr()
        return Result(code, result.out, result.err)

    return run


TINY_ON_FILES = [
    "train.steps=6",
    "train.eval_every=3",
    "train.save_every=2",
    "train.metric=loss",
    "train.batch_tokens=256",
    "model.d_model=16",
    "model.dropout=0.1",
]
"""A recipe cut down to a second, with any kind of model."""
TINY = [*TINY_ON_FILES, "data.epoch_size=300"]
"""The same for a generator."""


def as_options(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("-s", setting)]


@pytest.fixture
def tiny() -> list[str]:
    return as_options(TINY)


@pytest.fixture
def tiny_on_files() -> list[str]:
    return as_options(TINY_ON_FILES)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a few steps: complete, and good at nothing."""
    from regard import config
    from regard.runs.trainer import train

    path = tmp_path_factory.mktemp("run") / "tiny"
    train(config.load("sort", TINY), path)
    return path


TEXT = "".join(f"{word}: {word[::-1]}, and 3 more! ({word})\n" for word in ("ROMEO", "the sun"))
"""Lines for a language model."""


@pytest.fixture(scope="session")
def text_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two GPTs of a few steps: `shakespeare`, and a smaller one to draft for it."""
    from regard import config
    from regard.runs.trainer import train

    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text(TEXT * 20)
    (folder / "lm.yaml").write_text(
        "task: lm\ndata: {train: text.txt, valid: text.txt, test: text.txt, max_length: 32}\n"
        "tokenizer: {kind: bytes}\ndecode: {max_new_tokens: 12}\n"
        "model: {kind: gpt, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32}\n"
        "train: {steps: 4, batch_size: 8, eval_every: 4, save_every: 4}\n"
    )
    for name, layers in (("shakespeare", 2), ("shakespeare-small", 1)):
        keys = [f"data.directory={folder}", f"model.n_layers={layers}"]
        train(config.load(str(folder / "lm.yaml"), keys), folder / name)
    return folder


@pytest.fixture
def few_equalities(monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` checks torch's parts and the run alone: tests/equalities holds all the others."""
    from regard import verify
    from regard.verify.against_torch import torch_checks

    monkeypatch.setattr(verify, "checks", lambda run: [*torch_checks(), *verify.run_checks(run)])
