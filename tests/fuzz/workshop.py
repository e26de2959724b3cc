"""What the cases begin with: data in every format, and a small trained run of every task."""

import gzip
import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.fuzz.forked import run

COMMON = {
    "model": {"d_model": 16, "n_layers": 1},
    "train": {
        "steps": 4,
        "batch_size": 8,
        "warmup": 0,
        "eval_every": 2,
        "save_every": 2,
        "keep": 2,
        "metric": "loss",
    },
}
SHORT = {"decode": {"max_new_tokens": 6}}

TASKS: dict[str, dict] = {
    "transformer": {
        "task": "translate",
        "model": {"n_heads": 2, "d_ff": 16, "dropout": 0.1},
        "tokenizer": {"kind": "bpe", "vocab_size": 60},
        "train": {"average": 2},
    },
    "lstm": {
        "task": "translate",
        "model": {"kind": "lstm", "attention": "luong-dot"},
        "tokenizer": {"kind": "words"},
        "train": {"ema": 0.5},
    },
    "classify": {
        "task": "classify",
        "model": {"kind": "gru"},
        "tokenizer": {"kind": "words"},
    },
    "bert": {
        "task": "classify",
        "model": {"kind": "bert", "n_heads": 2, "d_ff": 16, "dropout": 0.1},
        "tokenizer": {"kind": "words"},
    },
    "span": {
        "task": "span",
        "model": {"kind": "bert", "n_heads": 2, "d_ff": 16},
        "tokenizer": {"kind": "words"},
        "data": {"stride": 2},
    },
    "tag": {
        "task": "tag",
        "model": {"kind": "gru", "crf": True},
        "tokenizer": {"kind": "words"},
    },
    "lm": {
        "task": "lm",
        "model": {"kind": "rnn", "tie_embeddings": "none"},
        "tokenizer": {"kind": "chars"},
        "data": {"max_length": 8},
    },
    "gpt": {
        "task": "lm",
        "model": {"kind": "gpt", "n_heads": 2, "d_ff": 16, "dropout": 0.1},
        "tokenizer": {"kind": "bytes", "vocab_size": 270},
        "data": {"max_length": 8, "documents": "paragraphs"},
    },
    "mlm": {
        "task": "mlm",
        "model": {"kind": "bert", "n_heads": 2, "d_ff": 16},
        "tokenizer": {"kind": "words"},
        "data": {"max_length": 12},
    },
}
"""A configuration of every task, and of each kind of model that it trains otherwise."""

TEXT_READERS = [name for name, values in TASKS.items() if values["task"] in ("lm", "mlm")]
"""Those that read running text, and not rows."""
ROW_READERS = [name for name in TASKS if name not in TEXT_READERS]

COLUMNS: dict[str, tuple[str, ...]] = {
    "classify": ("text", "label"),
    "bert": ("text", "label"),
    "tag": ("words", "tags"),
    "span": ("question", "context", "answers"),
}
"""The columns of a task; those of the others are source and target."""

ENDINGS = ("a", "b", "c")
"""Those of the files of parallel text."""

FORMATS = ("tsv", "csv", "jsonl", "parquet", "folder", "parallel", "tsv.gz", "jsonl.gz")

SOURCES = [f"{a} {b}" for a in ("red", "big", "old", "new") for b in ("dog", "cat", "hen", "ox")]
LINES = "".join(f"{source} runs. It is {source}.\n" for source in SOURCES)


@dataclass(frozen=True)
class Workshop:
    """A folder with `configs/NAME.yaml`, `data/` and `runs/NAME`; cases work on copies."""

    folder: Path

    def copy(self, to: Path, *names: str) -> None:
        """Some of it in a case's own folder."""
        for name in names:
            origin, target = self.folder / name, to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if origin.is_dir():
                shutil.copytree(origin, target)
            else:
                shutil.copy(origin, target)


def merged(*layers: dict) -> dict:
    """Configurations one over the other."""
    result: dict = {}
    for layer in layers:
        for key, value in layer.items():
            inner = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if inner else value
    return result


def configuration(name: str, file: str = "pairs.tsv", **data: str) -> dict:
    """The configuration of a task, reading this file."""
    splits = dict.fromkeys(("train", "valid", "test"), "text.txt" if name in TEXT_READERS else file)
    short = {} if name in COLUMNS or name == "mlm" else SHORT
    return merged(COMMON, short, TASKS[name], {"data": splits | data})


def pairs(name: str) -> list[tuple[str, ...]]:
    """Rows of a task: a text and its target, or its class."""
    if name == "span":
        return [("which", source, source.partition(" ")[0]) for source in SOURCES]
    if COLUMNS.get(name) == ("text", "label"):
        return [(source, "loud" if "dog" in source else "so so") for source in SOURCES]
    if name == "tag":
        return [(source, "B-X I-X" if "dog" in source else "O B-Y") for source in SOURCES]
    return [(source, " ".join(reversed(source.split()))) for source in SOURCES]


def write_data(folder: Path, name: str, format: str) -> dict[str, str]:
    """Rows of a task in a format; the keys of `data` that name them."""
    rows, columns = pairs(name), COLUMNS.get(name, ("source", "target"))
    folder.mkdir(parents=True, exist_ok=True)
    if format == "parallel":
        endings = dict(zip(columns, ENDINGS, strict=False))
        for side, ending in enumerate(endings.values()):
            (folder / f"pairs.{ending}").write_text("".join(f"{row[side]}\n" for row in rows))
        return {"file": "pairs", **endings}
    path = folder / f"pairs.{format}"
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    keys = {column: column for column in columns}
    if format == "folder":
        import datasets

        path = folder / "pairs"
        datasets.disable_progress_bars()
        datasets.Dataset.from_list(named).save_to_disk(path)
        return {"file": "pairs", **keys}
    if format == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(named), path)
        return {"file": path.name, **keys}
    if format.startswith("jsonl"):
        text = "".join(json.dumps(row) + "\n" for row in named)
    elif format == "csv":
        text = ",".join(columns) + "\n" + "".join(",".join(row) + "\n" for row in rows)
    else:
        text, keys = "".join("\t".join(row) + "\n" for row in rows), {}
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if format.endswith(".gz") else raw)
    return {"file": path.name, **keys}


def build(folder: Path) -> Workshop:
    """Train a run of every task."""
    workshop = Workshop(folder)
    (folder / "configs").mkdir(parents=True)
    for name in TASKS:
        for format in FORMATS:
            write_data(folder / "data" / name / format, name, format)
        (folder / "data" / name / "text.txt").write_text(LINES)
        shutil.copy(folder / "data" / name / "tsv" / "pairs.tsv", folder / "data" / name)
        text = yaml.safe_dump(configuration(name), sort_keys=False)
        (folder / "configs" / f"{name}.yaml").write_text(text)
        outcome = run(train(name), folder)
        assert outcome.code == 0, outcome.err
        shutil.copytree(folder / "runs" / name, folder / "resumable" / name)
        _back_to_the_middle(folder / "resumable" / name)
        for command in ("predict", "evaluate"):
            outcome = run([command, f"runs/{name}"], folder, stdin=prompts(name))
            assert outcome.code == 0, outcome.err
            (folder / f"{name}.{command}").write_bytes(outcome.out)
    return workshop


def _back_to_the_middle(run: Path) -> None:
    """As a run that was killed after its second step."""
    shutil.rmtree(run / "checkpoints" / "step-4")


def train(name: str, *more: str) -> list[str]:
    return ["train", f"configs/{name}.yaml", "--data", f"data/{name}", *more]


def prompts(name: str) -> bytes:
    """Lines that a run can read."""
    if name == "mlm":
        return b"red [MASK]\nold ox runs. It is [MASK] [MASK].\n"
    if name == "span":
        return b"which\tred dog\nwhich\told ox\n"
    return b"red dog\nold ox\nnew cat\n"


def seeded(kind: str, seed: int) -> random.Random:
    return random.Random(f"{kind}:{seed}")
