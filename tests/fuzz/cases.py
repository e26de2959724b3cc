"""The kinds of cases. Each is a function of its seed and says what was wrong, if anything was."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import yaml

from regard import config
from tests.fuzz import workshop
from tests.fuzz.damage import NASTY, changed_text, damaged, flipped, forged
from tests.fuzz.forked import run
from tests.fuzz.judging import fault_of
from tests.fuzz.workshop import (
    FORMATS,
    ROW_READERS,
    TASKS,
    TEXT_READERS,
    Workshop,
    prompts,
    train,
)

Case = Callable[[random.Random, Workshop, Path], str | None]
"""(random numbers of the seed, what there is, a folder of its own) -> what was wrong."""

COMMANDS = (
    "predict", "evaluate", "generate", "chat", "export", "verify", "train", "import", "recipes",
    "data", "chekc", "",
)  # fmt: skip
OPTIONS = (
    "--beam", "--n-best", "--max-new-tokens", "--temperature", "--top-k", "--top-p", "--min-p",
    "--strategy", "--seed", "--length-penalty", "--no-repeat-ngram", "--min-length-ratio", "--json",
    "--split", "--data", "--device", "--quantize", "--ensemble", "--on-bad-line", "--prefix", "-s",
    "--set", "--to", "--out", "--analysis", "--align", "--help", "-h", "--version", "--resume",
    "--init", "--precision", "--keys", "--nope", "--prompt", "--file", "-n", "--stop", "--choice",
    "--regex", "--draft", "--compare", "--save", "--speculate", "--contrast", "--beam-groups",
    "--best-of", "--typical", "--eta", "--top-n-sigma", "--repetition-penalty", "--early-stopping",
)  # fmt: skip


def options(random: random.Random, shop: Workshop, folder: Path) -> str | None:
    """Commands with options and values that do not go together."""
    name = random.choice(list(TASKS))
    shop.copy(folder, f"runs/{name}", f"data/{name}/pairs.tsv", f"data/{name}/text.txt")
    command = random.choice(COMMANDS[:5] if random.random() < 0.8 else COMMANDS)
    words = [command] if random.random() < 0.97 else []
    if random.random() < 0.9:
        words.append(f"runs/{name}")
    for _ in range(random.randrange(4)):
        words.append(random.choice(OPTIONS))
        if random.random() < 0.8:
            words.append(random.choice(NASTY))
    random.shuffle(words) if random.random() < 0.1 else None
    if command in ("train", "verify"):
        words.append("--help")  # training and proving are not what is tried here
    return fault_of(run(words, folder, stdin=damaged(prompts(name), random)))


def keys(random: random.Random, shop: Workshop, folder: Path) -> str | None:
    """Configuration keys with values that they cannot have."""
    name = random.choice(list(TASKS))
    shop.copy(folder, f"configs/{name}.yaml", f"data/{name}/pairs.tsv", f"data/{name}/text.txt")
    known = [key for key, *_ in config.describe()]
    settings: list[str] = []
    for _ in range(random.randrange(1, 3)):
        key = random.choice(known)
        if random.random() < 0.1:
            key = random.choice([key[:-1], f"{key}.x", key.split(".")[0], random.choice(NASTY)])
        settings += ["-s", f"{key}={random.choice(NASTY)}"]
    return fault_of(run(train(name, *settings, "-s", "train.steps=2"), folder))


def yaml_files(random: random.Random, shop: Workshop, folder: Path) -> str | None:
    """Configuration files with a line, a word or some bytes changed."""
    name = random.choice(list(TASKS))
    shop.copy(folder, f"configs/{name}.yaml", f"data/{name}/pairs.tsv", f"data/{name}/text.txt")
    file = folder / "configs" / f"{name}.yaml"
    text = file.read_text()
    for _ in range(random.randrange(1, 4)):
        text = changed_text(text, random) if text else ""
    raw = text.encode(errors="surrogateescape")
    file.write_bytes(damaged(raw, random) if random.random() < 0.2 else raw)
    return fault_of(run(_reading(name), folder))


def _reading(name: str) -> list[str]:
    """A command that reads the configuration and all data of a task."""
    if name in TEXT_READERS:
        return train(name, "-s", "train.steps=2")
    return ["data", "check", *train(name)[1:]]


def data_files(random: random.Random, shop: Workshop, folder: Path) -> str | None:
    """Data of every format with some of its bytes changed."""
    name, format = random.choice(ROW_READERS), random.choice(FORMATS)
    if random.random() < 0.1:
        name, format = random.choice(TEXT_READERS), "text"
    place = folder / "data" / name
    if format == "text":
        shop.copy(folder, f"data/{name}/text.txt")
        values = workshop.configuration(name)
    else:
        shop.copy(folder, f"data/{name}/{format}")
        (folder / "data" / name / format).rename(folder / "moved")
        place.rmdir()
        (folder / "moved").rename(place)
        columns = workshop.COLUMNS.get(name, ("source", "target"))
        named = format in ("csv", "jsonl", "parquet", "folder", "jsonl.gz")
        keys = dict(zip(columns, columns if named else workshop.ENDINGS, strict=False))
        file = "pairs" if format in ("folder", "parallel") else f"pairs.{format}"
        values = workshop.configuration(
            name, file, **(keys if named or format == "parallel" else {})
        )
    (folder / "configs").mkdir()
    values["data"]["on_bad_line"] = random.choice(["error", "skip"])
    (folder / "configs" / f"{name}.yaml").write_text(yaml.safe_dump(values))
    victim = random.choice(sorted(path for path in place.rglob("*") if path.is_file()))
    change = flipped if random.random() < 0.5 else damaged
    victim.write_bytes(change(victim.read_bytes(), random))
    command = _reading(name) if random.random() < 0.7 else train(name)
    return fault_of(run(command, folder))


def run_files(random: random.Random, shop: Workshop, folder: Path) -> str | None:
    """Files of a run with a bit flipped, or JSON of another shape: refused, or the same result."""
    name = random.choice(list(TASKS))
    resuming = random.random() < 0.4
    origin = "resumable" if resuming else "runs"
    shop.copy(folder, f"{origin}/{name}")
    if resuming:
        (folder / "resumable").rename(folder / "runs")
        shop.copy(folder, f"configs/{name}.yaml", f"data/{name}/pairs.tsv", f"data/{name}/text.txt")
    place = folder / "runs" / name
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and path.suffix != ".png"]
    if not resuming:
        files = [path for path in files if path.parent == place]
    victim = random.choice(files)
    _damage(victim, random)
    if resuming:
        outcome = run(train(name, "--resume"), folder)
    else:
        outcome = run(["predict", f"runs/{name}"], folder, stdin=prompts(name))
    fault = fault_of(outcome)
    if fault is not None or outcome.code != 0:
        return fault and f"{victim.relative_to(place)}: {fault}"
    if victim.name == "config.yaml" and _decoding_alone_differs(victim, shop, name):
        return None
    if resuming:
        return _other_weights(shop, folder, name, f"{victim.relative_to(place)} was changed, and ")
    if outcome.out != (shop.folder / f"{name}.predict").read_bytes():
        return f"{victim.relative_to(place)} was changed, and predictions are others"
    return None


def _damage(victim: Path, random: random.Random) -> None:
    raw = victim.read_bytes()
    if victim.suffix in (".json", ".jsonl") and random.random() < 0.5:
        first, _, rest = raw.decode().partition("\n")
        whole = victim.suffix == ".json"
        text = forged(json.loads(raw if whole else first), random)
        victim.write_text(text if whole else f"{text}\n{rest}")
    elif victim.suffix == ".yaml" and random.random() < 0.5:
        victim.write_text(changed_text(raw.decode(), random), errors="surrogateescape")
    else:
        victim.write_bytes(flipped(raw, random))


def _decoding_alone_differs(file: Path, shop: Workshop, name: str) -> bool:
    """Whether an edit is one that a person may make: how to decode, or what only describes."""
    before = config.read_yaml(shop.folder / "runs" / name / "config.yaml")
    after = config.read_yaml(file)
    free = {"decode", "about", "recipe"}
    return {key: value for key, value in before.items() if key not in free} == {
        key: value for key, value in after.items() if key not in free
    }


def _other_weights(shop: Workshop, folder: Path, name: str, said: str) -> str | None:
    """Whether a run ended in other bits than it should."""
    for file in ("model.safetensors", "checkpoints/step-4/model.safetensors"):
        whole = shop.folder / "runs" / name / file
        if whole.read_bytes() != (folder / "runs" / name / file).read_bytes():
            return f"{said}{file} is another"
    return None


def kills(random: random.Random, shop: Workshop, folder: Path) -> str | None:
    """Killed at an operation on files, once or twice, and resumed: the same bits, nothing left."""
    name = random.choice(list(TASKS))
    shop.copy(folder, f"configs/{name}.yaml", f"data/{name}/pairs.tsv", f"data/{name}/text.txt")
    place = folder / "runs" / name
    for _ in range(random.randrange(1, 3)):
        resume = ["--resume"] if (place / "config.yaml").exists() else []
        outcome = run(train(name, *resume), folder, kill_at=random.randrange(1, 60))
        if outcome.code not in (0, -9):
            return f"before the kill: {fault_of(outcome, may_fail=False)}"
    resume = ["--resume"] if (place / "config.yaml").exists() else []
    fault = fault_of(run(train(name, *resume), folder), may_fail=False)
    if fault is not None:
        return f"after a kill: {fault}"
    leftovers = [path.name for path in (folder / "runs").rglob(".*") if path.name != ".lock"]
    if leftovers:
        return f"a kill left {leftovers}"
    return _other_weights(shop, folder, name, "after a kill ")


KINDS: dict[str, tuple[Case, float]] = {
    "options": (options, 0.25),
    "keys": (keys, 0.15),
    "yaml": (yaml_files, 0.2),
    "data": (data_files, 0.15),
    "run": (run_files, 0.2),
    "kill": (kills, 0.05),
}
"""Every kind of case, and its share of all cases."""
