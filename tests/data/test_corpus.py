"""Token ids on disk: the same as in memory, made once, for one state of everything."""

import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.commands import tables
from regard.data import row_source
from regard.data.batches import BatchStream
from regard.data.corpus import cache_folder, make_corpus, open_corpus
from regard.data.examples import InMemory
from regard.data.tally import Tally
from regard.system.errors import UserError
from regard.tasks.check import check
from regard.tasks.translate import Translate
from tests.command import refused
from tests.permissions import shared_folder, without_privileges

ROWS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 70_000), max_size=6), st.lists(st.integers(0, 70_000), max_size=6)
    ),
    max_size=20,
)


@given(rows=ROWS)
def test_what_is_on_disk_is_what_is_in_memory(tmp_path_factory, rows) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        tally = Tally("skip", rows=len(rows), counts={"bad": 2}, places={"bad": ["x:1", "x:2"]})
        made = make_corpus("key", ((None, *row) for row in rows), tally=tally)
        again = Tally("skip")
        opened = open_corpus("key", again)
    memory = InMemory([s for s, _ in rows], [t for _, t in rows])
    numbers = np.arange(len(rows))
    assert opened is not None
    assert again == tally
    assert made.rows(numbers) == opened.rows(numbers) == memory.rows(numbers)
    assert memory.rows(numbers) == ([s for s, _ in rows], [t for _, t in rows])
    assert opened.lengths(0, len(rows)).tolist() == [[len(s), len(t)] for s, t in rows]


def test_a_damaged_copy_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    for damaged in (b"", b"\x07\x00\x00\x00"):  # cut short, or other bytes
        make_corpus("key", [(None, [1], [2])], tally=Tally("skip", rows=1))
        (tmp_path / "key" / "source.ids").write_bytes(damaged)
        assert open_corpus("key", Tally("skip")) is None
        assert not (tmp_path / "key").exists()
    make_corpus("key", [(None, [1], [2])], tally=Tally("skip", rows=1))
    (tmp_path / "key" / "source.ids").unlink()
    assert open_corpus("key", Tally("skip")) is None
    assert not (tmp_path / "key").exists()


def test_a_flipped_bit_in_what_describes_a_copy_is_noticed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    tally = Tally("skip", rows=60, tokens=90, counts={"bad": 2}, places={"bad": ["x:1", "x:2"]})
    make_corpus("key", [(None, [1], [2])] * 60, tally=tally)
    shutil.copytree(tmp_path / "key", tmp_path / "kept")
    good = (tmp_path / "kept" / "about.json").read_bytes()
    for place in range(len(good)):
        shutil.copytree(tmp_path / "kept", tmp_path / "key", dirs_exist_ok=True)
        flipped = bytearray(good)
        flipped[place] ^= 1 << place % 8
        (tmp_path / "key" / "about.json").write_bytes(flipped)
        again = Tally("skip")
        assert open_corpus("key", again) is None, (place, bytes(flipped))
        assert again == Tally("skip")


def test_a_copy_that_is_deleted_while_it_is_used_can_still_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    made = make_corpus("key", [(None, [1, 5], [2]), (None, [3], [])], tally=Tally("skip", rows=2))
    opened = open_corpus("key", Tally("skip"))
    assert opened is not None
    shutil.rmtree(tmp_path / "key")
    for corpus in (made, opened):
        assert corpus.rows(np.arange(2)) == ([[1, 5], [3]], [[2], []])


def test_a_copy_that_may_not_be_read_is_not_called_damaged(monkeypatch) -> None:
    with shared_folder() as folder:
        monkeypatch.setenv("REGARD_CACHE", str(folder))
        make_corpus("key", [(None, [1], [2])], tally=Tally("skip", rows=1))
        (folder / "key" / "source.ids").chmod(0)
        with (
            without_privileges(),
            pytest.raises(UserError, match=r"cannot be read: Permission denied\. Token ids"),
        ):
            open_corpus("key", Tally("skip"))
        assert (folder / "key" / "about.json").exists()


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set REGARD_CACHE to a folder with room"):
        make_corpus("key", [], tally=Tally("skip"))


def test_examples_may_have_other_sides_than_source_and_target(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    rows = [([1], [2, 3], [4]), ([5, 6], [7], [])]
    sides = ("context", "question", "answers")
    tally = Tally("skip", rows=2)
    made = make_corpus("key", ((None, *row) for row in rows), tally=tally, sides=sides)
    opened = open_corpus("key", Tally("skip"))
    assert opened is not None
    expected = tuple(list(side) for side in zip(*rows, strict=True))
    assert made.rows(np.arange(2)) == opened.rows(np.arange(2)) == expected
    assert InMemory(*expected).rows(np.arange(2)) == expected
    assert opened.lengths(0, 2).tolist() == [[1, 2, 1], [2, 1, 0]]


def test_of_two_that_make_the_same_copy_the_slower_takes_the_first(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    faster = Tally("skip", rows=1, tokens=2)

    def lines():
        yield None, [1], [2]
        make_corpus("key", [(None, [1], [2])], tally=faster)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.getpid", iter(range(9)).__next__)  # two processes
        slower = Tally("skip", rows=1, tokens=2)
        made = make_corpus("key", lines(), tally=slower)
    assert made.rows(np.arange(1)) == ([[1]], [[2]])
    assert slower == faster
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_fault_while_a_copy_is_made_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))

    def lines():
        yield None, [1], [2]
        raise UserError("x:2: bad")

    with pytest.raises(UserError, match=r"^x:2: bad$"):
        make_corpus("key", lines(), tally=Tally("error"))
    assert list(tmp_path.iterdir()) == []


def translation(folder: Path, *settings: str) -> Translate:
    words = ["data.train=pairs.tsv", "data.valid=pairs.tsv", "data.test=pairs.tsv"]
    return Translate.learn(config.load("sort", [*words, f"data.directory={folder}", *settings]))


def test_the_copy_is_of_one_state_of_data_tokenizer_and_settings(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pairs.tsv").write_text("A b\tb a\nc d\td c\n")

    def copies(*settings: str) -> int:
        translation(tmp_path, *settings).examples("train")
        return len(list(cache_folder().iterdir()))

    assert copies() == 1
    assert copies() == 1
    assert copies("data.max_length=9") == 2
    assert copies("tokenizer.lowercase=true") == 3
    (tmp_path / "pairs.tsv").write_text("A b\tb a\nc d\td d\n")
    assert copies() == 4


def test_a_line_with_too_many_tokens_is_named_or_counted(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\n" + "a " * 5_000 + "\tb\na\t" + "b " * 9 + "\n")
    with pytest.raises(UserError, match=r"pairs.tsv:2: the source has 5,000 tokens where data"):
        translation(tmp_path, "data.max_length=8").check_data()
    task = translation(tmp_path, "data.max_length=8", "data.on_bad_line=skip")
    task.check_data()
    assert task.pairs("test") == [("a", "b")]
    assert len(task.examples("train")) == 1
    assert "2 lines were left out" in task.warnings()[0]
    assert "the target has more tokens than data.max_length=8" in task.warnings()[0]


@given(seed=st.integers(0, 5), epoch=st.integers(0, 2), count=st.integers(1, 200))
def test_windows_hold_every_example_once(seed: int, epoch: int, count: int) -> None:
    lengths = np.random.default_rng(count).integers(1, 9, count)
    examples = InMemory([[4 + n] * m for n, m in enumerate(lengths)], [[5]] * count)
    stream = BatchStream(lambda number: examples, seed=seed, batch_tokens=40, window=32, block=8)
    batches = list(stream.epoch(epoch))
    assert stream.count(epoch) == len(batches)
    numbers = [row[0] - 4 for batch in batches for row in batch.source.tolist()]
    assert sorted(numbers) == list(range(count))
    start = len(batches) // 2
    rest = list(stream.epoch(epoch, start=start))
    assert [b.source.tolist() for b in rest] == [b.source.tolist() for b in batches[start:]]


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch) -> None:
    """Python's own allocations while a file is read and batched: as many for five times the lines.

    benchmarks/memory.py measures whole processes, up to ten million lines.
    """
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    peaks = []
    for count in (2_000, 10_000):
        lines = (f"{n % 10} {n % 7} {n % 3}\t{n % 3} {n % 7}\n" for n in range(count))
        (tmp_path / "pairs.tsv").write_text("".join(lines))
        (tmp_path / "small.tsv").write_text("1\t1\n")
        task = translation(tmp_path, "data.valid=small.tsv", "data.test=small.tsv")
        tracemalloc.start()
        task.check_data()
        stream = task.batches()
        stream._window, stream._block = 1024, 256
        assert sum(batch.source.size(0) for batch in stream.epoch(0)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 200_000


def test_one_file_is_split_by_its_sources(tmp_path: Path) -> None:
    lines = [f"s{n % 300}\tt{n}\n" for n in range(600)]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    task = translation(tmp_path, "data.held_out=0.1")
    splits = {split: task.pairs(split) for split in ("train", "valid", "test")}
    assert sorted(pair for pairs in splits.values() for pair in pairs) == sorted(
        tuple(line.rstrip().split("\t")) for line in lines
    )
    sources = {split: {source for source, _ in pairs} for split, pairs in splits.items()}
    assert not sources["train"] & sources["test"]
    assert not sources["train"] & sources["valid"]
    assert 15 < len(sources["valid"]) < 45
    assert len(task.examples("train")) == len(splits["train"])
    same = translation(tmp_path, "data.held_out=0.1", "data.test=./pairs.tsv")
    assert same.pairs("test") == splits["test"]
    other = translation(tmp_path, "data.held_out=0.1", "data.split_seed=1")
    assert other.pairs("test") != splits["test"]


def test_bad_lines_of_one_file_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"s{n}\tt\n" for n in range(99)) + "bad\n")
    task = translation(tmp_path, "data.held_out=0.2", "data.on_bad_line=skip")
    task.check_data()
    assert len([one for one in task.warnings() if "1 line was left out" in one]) == 1
    assert [sum(report.left_out.values()) for report in check(task).values()] == [1, 0, 0]


def test_only_the_training_file_can_be_split(call, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"s{n}\tt\n" for n in range(60)))
    (tmp_path / "other.tsv").write_text("s1\tt\n")
    assert len(translation(tmp_path, "data.held_out=0.3", "data.test=other.tsv").pairs("test")) == 1
    apart = ("data.held_out=0.1", "data.test=other.tsv", "data.valid=other.tsv")
    with pytest.raises(UserError, match=r"neither valid nor test names the same"):
        translation(tmp_path, *apart)
    refused(call("train", "sort", "-s", "data.held_out=0.1"), "sort holds out its own examples")
    lm = ("-s", "task=lm", "-s", "model.kind=gru", "-s", "train.metric=loss")
    refused(
        call("train", "sort", "-s", "data.held_out=0.1", *lm), "sort holds out its own examples"
    )


def test_a_file_without_a_usable_line_says_why(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("bad\n")
    with pytest.raises(
        UserError, match=r"no usable line in it for data.valid: 1 where there is 1 column, not 2"
    ):
        translation(tmp_path, "data.on_bad_line=skip").pairs("valid")


def test_a_large_file_gives_a_part_of_its_lines_to_the_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spread over all of it, and said; every line is trained on all the same."""
    monkeypatch.setattr(row_source, "LEARNED_FROM", 40)
    (tmp_path / "pairs.tsv").write_text("".join(f"s{n}\tt\n" for n in range(99)) + "bad\n")
    task = translation(tmp_path, "data.on_bad_line=skip", "tokenizer.kind=words")
    task.check_data()
    known = set(task.tokenizer.tokens(range(len(task.tokenizer))))
    assert {f"s{n}" for n in range(0, 99, 3)} <= known
    assert not {f"s{n}" for n in range(1, 99, 3)} & known
    assert len(task.examples("train")) == 99
    assert any("learned from one in 3 of its lines" in one for one in task.warnings())
    assert "it is learned from one line in 3\n" in tables.of_data(
        "train", "x", check(task)["train"]
    )
