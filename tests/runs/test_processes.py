"""Two processes train as one does: every task, plain and sharded, in one go or resumed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard import config
from regard.config import Config
from regard.runs.directory import read_metrics
from regard.runs.trainer import train
from regard.system.engine import Engine
from regard.system.ranks import World
from tests.processes import on_processes

YAML = """
task: {task}
data: {{train: {file}, valid: {file}, test: {file}, max_length: 12}}
tokenizer: {{kind: {tokens}}}
model: {{kind: lstm, d_model: 16, n_layers: 2, dropout: 0}}
train: {{steps: 20, batch_size: 16, lr: 0.003, warmup: 0, schedule: constant, eval_every: 10,
  save_every: 10}}
"""
ASKED = '{{"question": "{0}", "context": "{0} {1} {2}", "answers": "{2}"}}\n'
FILES = {  # 42 lines: the last batch of an epoch is smaller than the others
    "translate": ("pairs.tsv", "words", "{0} {1} {2}\t{2} {1} {0}\n"),
    "classify": ("labelled.tsv", "words", "{0} {1} {2}\t{2}\n"),
    "tag": ("tagged.txt", "words", "{0} O\n{1} B-{0}\n{2} I-{0}\n\n"),
    "span": ("asked.jsonl", "words", ASKED),
    "match": ("rated.tsv", "words", "{0} {1}\t{2} {0}\t{3}\n"),
    "lm": ("text.txt", "chars", "{0} {1} {2}\n"),
    "mlm": ("documents.txt", "words", "{0} {1} . {2} {1} {0} .\n"),
}
# Without biases: that of the keys has no gradient but rounding, which Adam takes for one.
BLOCKS = ["model.n_heads=2", "model.bias=false"]
TASKS = {
    "translate, Transformer": [
        "model.kind=transformer",
        "model.n_layers=1",
        *BLOCKS,
        "train.optimizer=adamw",
        "train.weight_decay=0.1",
        "train.accumulate=2",
        "train.ema=0.9",
        "train.lr_scale=encoder=0.5",
        "train.metric=exact_match",
        "decode.max_new_tokens=4",
    ],
    "translate, LSTM": ["train.freeze=source_embedding", "train.average=2"],
    "classify": ["train.optimizer=muon"],
    "tag": ["train.optimizer=adamw", "model.crf=true", "train.metric=f1"],
    "span": [
        "model.kind=bert",
        "model.n_heads=2",
        "model.bias=false",
        "data.stride=2",
        "train.freeze=output.bias",
    ],
    "classify, Transformer": [
        "model.kind=transformer",
        "model.n_layers=1",
        "model.pooling=mean",
        *BLOCKS,
        "train.lr=0.001",
    ],
    "match": ["data.text=1", "data.text_pair=2", "data.score=3"],
    "lm, LSTM": ["train.clip=0.1", "data.max_length=6"],  # step 10 is in mid-text
    "mlm": ["model.kind=bert", *BLOCKS, "train.optimizer=adamw", "data.mask_rate=0.3"],
    "lm, GPT": ["model.kind=gpt", *BLOCKS, "train.optimizer=muon"],
}
SHARDED = Engine(sharded=True)


def quiet(sentence: str) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processes")
    for task, (name, tokens, line) in FILES.items():
        (path / f"{task}.yaml").write_text(YAML.format(task=task, file=name, tokens=tokens))
        words = [("abc"[n % 3], "defg"[n % 4], "hi"[n % 2], n % 5) for n in range(42)]
        (path / name).write_text("".join(line.format(*each) for each in words))
    return path


@pytest.fixture(scope="module")
def trained(folder: Path) -> Callable[[str], dict[str, Path]]:
    """The runs of a task: by one process, by two, and by two that are sharded; each made once."""
    made: dict[str, dict[str, Path]] = {}

    def make(task: str) -> dict[str, Path]:
        if task not in made:
            made[task] = runs = {how: folder / f"{task} {how}" for how in ("one", "two", "sharded")}
            train(configured(folder, task), runs["one"], say=quiet)

            def work(world: World) -> None:
                for how, engine in (("two", Engine()), ("sharded", SHARDED)):
                    settings = configured(folder, task)
                    train(settings, runs[how], world=world, engine=engine, say=quiet)

            on_processes(2, work)
        return made[task]

    return make


def configured(folder: Path, task: str) -> Config:
    file = folder / f"{task.partition(',')[0]}.yaml"
    return config.load(str(file), [f"data.directory={folder}", *TASKS[task]])


def difference(run: Path, other: Path, *, name: str = "model") -> float:
    """‖w − v‖ / ‖w‖ over all tensors of the last checkpoints of two runs."""
    ours, theirs = (
        load_file(run / f"checkpoints/step-20/{name}.safetensors") for run in (run, other)
    )
    assert ours.keys() == theirs.keys()
    squares = [
        (float((ours[key] - theirs[key]).square().sum()), float(ours[key].square().sum()))
        for key in ours
    ]
    return (sum(apart for apart, _ in squares) / sum(size for _, size in squares)) ** 0.5


@pytest.mark.parametrize("how", ["two", "sharded"])
@pytest.mark.parametrize("task", TASKS)
def test_two_processes_of_8_rows_train_as_one_of_16(trained, task: str, how: str) -> None:
    runs = trained(task)
    one, other = runs["one"], runs[how]
    assert difference(one, other) < 1e-6
    assert difference(one, other, name="optimizer") < 1e-5
    assert sorted(path.name for path in one.rglob("*")) == sorted(
        path.name for path in other.rglob("*")
    )
    assert len(read_metrics(one)) >= 2
    for line, same in zip(read_metrics(one), read_metrics(other), strict=True):
        for split in ("train", "valid"):
            assert line[split].keys() == same[split].keys()
            for name, value in line[split].items():
                equal = pytest.approx(value, rel=1e-6, abs=1e-6 if name == "gap_closed" else 1e-12)
                assert same[split][name] == equal, (split, name)


def resumed(folder: Path, task: str, run: Path, *, on: int, engine: Engine | None = None) -> Path:
    """A copy of a run, taken up again after step 10 by so many processes."""
    copy = folder / f"{run.name}, resumed on {on}"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "checkpoints" / "step-20")

    def work(world: World) -> None:
        settings = configured(folder, task)
        train(settings, copy, resume=True, world=world, engine=engine, say=quiet)

    if on == 1:
        work(World())
    else:
        on_processes(on, work)
    return copy


def test_a_checkpoint_of_two_processes_resumes_on_any_number(trained, folder) -> None:
    task = "lm, LSTM"  # carries a state from batch to batch
    two = trained(task)["two"]
    for number in (1, 3, 4):  # of 16 rows
        assert difference(two, resumed(folder, task, two, on=number)) < 1e-6
    again = resumed(folder, task, two, on=2)
    for name in ("model", "optimizer", "carried"):
        file = f"checkpoints/step-20/{name}.safetensors"
        assert (again / file).read_bytes() == (two / file).read_bytes()


def test_a_sharded_checkpoint_resumes_on_one_and_a_plain_one_sharded(trained, folder) -> None:
    task = "translate, Transformer"
    runs = trained(task)
    alone = resumed(folder, task, runs["sharded"], on=1)
    assert difference(runs["one"], alone) < 1e-6
    assert difference(runs["one"], alone, name="average") < 1e-6
    assert difference(runs["one"], resumed(folder, task, runs["one"], on=4, engine=SHARDED)) < 1e-6


def test_a_resume_says_that_the_number_of_processes_has_changed(trained, folder) -> None:
    two, messages = trained("classify")["two"], []
    copy = folder / "said"
    shutil.copytree(two, copy)
    settings = configured(folder, "classify")
    train(settings, copy, resume=True, say=messages.append)
    (sentence,) = messages
    assert sentence == (
        "Resumed with 1 process where it was 2 processes: the weights will be the same up to "
        "rounding, not to the bit."
    )
    progress = json.loads((two / "checkpoints/step-20/progress.json").read_text())
    assert progress["processes"] == 2


def test_sharded_ranks_hold_a_part_of_all_weights_and_of_the_optimiser(folder) -> None:
    from regard.runs.trainer import _loop
    from regard.tasks import TASKS as KINDS

    settings = configured(folder, "translate, Transformer")
    task = KINDS[settings.task].learn(settings)

    def work(world: World) -> tuple[int, int, int]:
        model = task.build_model()
        weights = sum(weight.numel() for weight in model.parameters())
        loop = _loop(settings, task, model, SHARDED, world)
        loop.model.train()
        loop.update(loop.model, {"batch": next(task.batches().epoch(0))})
        own = sum(weight.to_local().numel() for weight in model.parameters())
        moments = sum(
            state["exp_avg"].to_local().numel() for state in loop.optimiser.state.values()
        )
        return weights, own, moments

    (weights, *first), (_, *second) = on_processes(2, work)
    assert [sum(parts) for parts in zip(first, second, strict=True)] == [weights, weights]
    assert max(first + second) < 0.52 * weights


def test_sums_and_values_of_all_ranks_are_the_same_on_each() -> None:
    def work(world: World) -> tuple:
        generator = torch.Generator().manual_seed(world.rank)
        tensors = [torch.randn(5, generator=generator), torch.ones(2, 3), torch.tensor(world.rank)]
        tensors += [torch.zeros(0), torch.ones(4, dtype=torch.float64).view(2, 2).T]
        world.add_up(tensors)
        texts = world.gather("ü" * 300 * world.rank)
        rows = torch.arange(7.0)[world.rows, None]
        return (
            [tensor.tolist() for tensor in tensors],
            [len(text) for text in texts],
            world.from_first({"rank": world.rank}),
            world.join([10 * number for number in world.share(range(7))]),
            world.join_rows(rows)[:, 0].tolist(),
        )

    results = on_processes(3, work)
    assert results[0] == results[1] == results[2]
    sums, lengths, first, numbers, rows = results[0]
    assert sums[1:] == [[[3.0] * 3] * 2, 3, [], [[3.0, 3.0], [3.0, 3.0]]]
    assert lengths == [0, 300, 600]
    assert first == {"rank": 0}
    assert numbers == [0, 10, 20, 30, 40, 50, 60]
    assert rows == [0, 1, 2, 3, 4, 5, 6]
