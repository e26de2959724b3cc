"""Files of few labelled examples, out of the training data of a recipe: as many of every class."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from regard.config import Config
from regard.data.rows import Row
from regard.data.splits import SPLITS
from regard.system.errors import UserError
from regard.system.files import write_text
from regard.tasks.classify import Classify


class LabelledData:
    """The labelled texts of a recipe, to be written as files with fewer of them."""

    def __init__(self, config: Config, folder: Path) -> None:
        """folder: where the files are written, and found if they are there."""
        self.folder = folder
        self.sources = Classify.sources_of(config)
        self.fields = [field.name for field in self.sources["train"].fields]
        self.train = list(self.sources["train"].rows(seed=config.seed))
        self.labels = len(self.train)
        self._refuse_other_data()

    def _refuse_other_data(self) -> None:
        """Refuse files that were made of other data."""
        mark = self.folder / "made-from.txt"
        made_from = "".join(f"{self.sources[split].fingerprint}\n" for split in SPLITS)
        if not mark.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(mark, made_from)
        elif mark.read_text(encoding="utf-8") != made_from:
            raise UserError(f"{self.folder} was made of other data: name another --out.")

    def settings(self, labels: int | None, seed: int) -> list[str]:
        """What a configuration needs to train on so many labelled examples; None: on all."""
        names = {split: f"{split}.jsonl" for split in SPLITS}
        for split in ("valid", "test"):
            if not (self.folder / names[split]).exists():
                self._write(names[split], list(self.sources[split].rows()))
        if labels is not None:
            names["train"] = f"{labels}-seed{seed}.jsonl"
        if not (self.folder / names["train"]).exists():
            chosen = self.train if labels is None else balanced(self.train, labels, seed=seed)
            self._write(names["train"], chosen)
        columns = [f"data.{name}={name}" for name in self.fields]
        files = [f"data.{split}={name}" for split, name in names.items()]
        return [f"data.directory={self.folder.resolve()}", "data.held_out=0", *files, *columns]

    def _write(self, name: str, rows: Sequence[Row]) -> None:
        lines = (json.dumps(dict(row.values), ensure_ascii=False) for row in rows)
        write_text(self.folder / name, "".join(f"{line}\n" for line in lines))


def balanced(rows: Sequence[Row], count: int, *, seed: int) -> list[Row]:
    """So many of the rows, as many of each class as there are; fewer are always part of more."""
    if count > len(rows):
        raise UserError(f"{count:,} labelled examples were asked for, and there are {len(rows):,}.")
    classes: dict[str, list[Row]] = {}
    for row in rows:
        classes.setdefault(row["label"], []).append(row)
    if count < len(classes):
        raise UserError(f"{count} labelled examples cannot be of all {len(classes)} classes.")
    for name, members in classes.items():
        Random(f"{seed} {name}").shuffle(members)
    chosen: list[Row] = []
    place = 0
    while len(chosen) < count:  # one of every class in turn
        of_each = [classes[name][place] for name in sorted(classes) if place < len(classes[name])]
        chosen += of_each[: count - len(chosen)]
        place += 1
    return chosen
