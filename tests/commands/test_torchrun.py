"""regard train under torchrun: one rank speaks, all of them stop, and what is lost is resumed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.system import torchrun
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.torchrun import Launch
from tests.command import refused
from tests.conftest import TINY_ON_FILES, as_options
from tests.processes import Launcher

SPLITS = [f"data.{split}=pairs.tsv" for split in ("train", "valid", "test")]
FEW = as_options([*TINY_ON_FILES, *SPLITS, "model.n_layers=1"])
LONG = [*FEW, *as_options(["train.steps=100000", "train.eval_every=100000", "train.save_every=2"])]


@pytest.fixture(autouse=True)
def _pairs(tmp_path: Path) -> None:
    """Few of them, so that an evaluation is quick."""
    lines = [f"{n % 7} {n % 5}\t{n % 5} {n % 7}\n" for n in range(40)]
    (tmp_path / "pairs.tsv").write_text("".join(lines))


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(torchrun, "SECONDS_FOR_RANK_0", 0.5)
    return Launcher(tmp_path)


def wait_for(what: Callable[[], bool], *, seconds: float = 100) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def in_error_file(folder: Path, rank: int = 0) -> str:
    return json.loads((folder / f"{rank}-error.json").read_text())["message"]["message"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["train", "nothing"], "nothing"),
        (["train", "sort", "--no-such"], "--no-such"),
        (["train", "sort", *FEW, "--compile", "--shard"], "--compile and --shard"),
        (
            ["train", "sort", *FEW, "-s", "train.batch_tokens=3"],
            "There are 2 processes, and the largest",
        ),
        (["evaluate", "runs/sort"], "torchrun is for regard train"),
    ],
)
def test_a_mistake_is_said_once_by_rank_0(
    launcher: Launcher, options: list[str], words: str
) -> None:
    first, second = launcher.run(2, *options)
    refused(first, words)
    assert (second.code, second.out, second.err) == (2, "", "")
    assert words in in_error_file(launcher.folder)


def test_a_rank_that_dies_ends_the_others_within_a_minute_with_a_sentence(
    launcher: Launcher,
) -> None:
    first, second = launcher.start(2, "train", "sort", *LONG)
    wait_for((launcher.folder / "runs/sort/checkpoints/step-2").exists)
    os.kill(second.child.pid, signal.SIGKILL)
    killed = time.monotonic()
    assert second.end().code == -signal.SIGKILL
    result = first.end()
    assert time.monotonic() - killed < 60
    assert result.code == 1
    *_, sentence = result.err.splitlines()
    assert "Traceback" not in result.err
    assert sentence.startswith("regard: A process of this training has ended")
    assert "torchrun --nproc-per-node 2 -m regard train sort" in sentence
    assert sentence.endswith("--resume")
    assert in_error_file(launcher.folder) in sentence


def test_a_rank_that_dies_before_training_begins_is_noticed_too(launcher: Launcher) -> None:
    (launcher.folder / "pairs.tsv").unlink()
    os.mkfifo(launcher.folder / "pairs.tsv")  # rank 0 waits for its data, and the others for it
    first, second = launcher.start(2, "train", "sort", *FEW)
    wait_for(lambda: launcher.store.num_keys() > 2)
    second.child.kill()
    first.child.terminate()  # as torchrun does then
    result = first.end()
    assert result.code == 1
    assert result.err.startswith("regard: A process of this training has ended")
    assert result.err.count("\n") == 1


def test_a_signal_to_one_rank_stops_all_after_one_step(launcher: Launcher) -> None:
    first, second = launcher.start(2, "train", "sort", *LONG)
    checkpoints = launcher.folder / "runs/sort/checkpoints"
    wait_for((checkpoints / "step-2").exists)
    os.kill(second.child.pid, signal.SIGTERM)
    results = first.end(), second.end()
    assert [result.code for result in results] == [128 + signal.SIGTERM] * 2
    assert "Stopped by SIGTERM; a checkpoint is saved. Continue with:\n  torchrun" in results[0].err
    assert results[1].err == ""
    steps = {int(path.name.removeprefix("step-")) for path in checkpoints.iterdir()}
    newest = max(steps)

    # Started again by torchrun, the processes go on by themselves; rank 0 says it once.
    more = ["-s", f"train.steps={newest + 1}", "-s", f"train.eval_every={newest + 1}"]
    again = launcher.run(2, "train", "sort", *LONG, *more, TORCHELASTIC_RESTART_COUNT="1")
    assert [result.code for result in again] == [0, 0], again[0].err
    assert f"step {newest + 1}  valid" in again[0].err
    assert again[1].err == ""


def test_a_run_that_was_there_before_is_not_resumed_by_a_restart(
    launcher: Launcher, tiny_run: Path
) -> None:
    for attempt in ("0", "1"):
        first, second = launcher.run(
            2, "train", "sort", *FEW, "--out", str(tiny_run), TORCHELASTIC_RESTART_COUNT=attempt
        )
        if attempt == "0":
            refused(first, "already holds a run")
        else:  # it has been said
            assert (first.code, first.err) == (2, "")
        assert "already holds a run" in in_error_file(launcher.folder)
        assert second.err == ""


def test_another_mistake_of_a_restart_is_said(launcher: Launcher) -> None:
    for attempt, recipe in (("0", "nothing"), ("1", "nowhere")):
        first, _ = launcher.run(2, "train", recipe, TORCHELASTIC_RESTART_COUNT=attempt)
        refused(first, recipe)


def test_shard_is_for_several_processes(call) -> None:
    refused(call("train", "sort", "--shard"), "--shard divides a model among several processes")


ENVIRONMENT = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "7",
}


def test_the_environment_of_torchrun_is_read_and_no_other() -> None:
    launch = Launch.read(ENVIRONMENT)
    assert (launch.rank, launch.size, launch.local_rank, launch.local_size) == (3, 4, 1, 2)
    assert launch.command == "torchrun … -m regard"
    assert Launch.read({"RANK": "3", "WORLD_SIZE": "4"}) is None


def test_each_process_has_a_gpu_of_its_own_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    launch, cuda = Launch.read(ENVIRONMENT), Engine(torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert launch.own_device(cuda).device == torch.device("cuda", 1)
    assert chosen == [1]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match=r"started 2 processes where there is 1 GPU\. Pass --nproc"):
        launch.own_device(cuda)
    with pytest.raises(UserError, match="--device mps: several processes"):
        launch.own_device(Engine(torch.device("mps")))


@pytest.mark.parametrize("by_person", [True, False])
def test_the_threads_that_a_person_chose_are_kept(
    by_person: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"HOME": "here"} | ({"OMP_NUM_THREADS": "1"} if by_person else {})
    with subprocess.Popen(["sleep", "60"], env=own) as stands_for_torchrun:
        wait_for(lambda: b"HOME" in Path(f"/proc/{stands_for_torchrun.pid}/environ").read_bytes())
        monkeypatch.setattr(os, "getppid", lambda: stands_for_torchrun.pid)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as torchrun sets it for its processes
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(12))
        chosen: list[int] = []
        monkeypatch.setattr(torch, "set_num_threads", chosen.append)
        Launch.read(ENVIRONMENT).divide_threads()
        stands_for_torchrun.kill()
    assert chosen == ([] if by_person else [6])


def test_torchrun_restarts_a_run_that_lost_a_rank_on_its_share_of_the_cores(tmp_path: Path) -> None:
    steps = as_options(["train.steps=60", "train.eval_every=60", "train.save_every=5"])
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--max-restarts", "1", "-m", "regard", "train", "sort", *FEW, *steps]
    own = {"PYTHONPATH": os.getcwd()}
    environment = {name: text for name, text in os.environ.items() if name != "OMP_NUM_THREADS"}
    with (tmp_path / "stderr").open("w") as errors:
        launched = subprocess.Popen(command, cwd=tmp_path, env=environment | own, stderr=errors)
    checkpoints = tmp_path / "runs/sort/checkpoints"
    wait_for((checkpoints / "step-5").exists)
    children = Path(f"/proc/{launched.pid}/task/{launched.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    assert launched.wait(timeout=200) == 0
    text = (tmp_path / "stderr").read_text()
    assert text.count("regard: A process of this training has ended") == 1
    assert "torchrun starts all of them again, from the last checkpoint." in text
    assert len(re.findall("step 60  valid", text)) == 1
    progress = json.loads((checkpoints / "step-60/progress.json").read_text())
    cores = len(os.sched_getaffinity(0))
    assert (progress["processes"], progress["threads"]) == (2, max(1, cores // 2))
