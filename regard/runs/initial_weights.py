"""Weights of another run, or of parts of it, for training to begin with.

A weight is taken where its name and its shape are the same, and the shapes of the weights of its
module. A weight that has one row per token means nothing without its vocabulary: it is taken
together with its tokenizer.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import config as configuration
from regard.config import Config
from regard.nn.embedding import VocabularySide
from regard.runs.directory import is_run
from regard.runs.run import Run, load
from regard.system.errors import UserError
from regard.tasks import TASKS, Task
from regard.training.depth import begun_anew


@dataclass(frozen=True)
class InitialWeights:
    """A run to take weights from, and the beginnings of their names; none: all of them."""

    run: Run
    parts: tuple[str, ...] = ()

    @classmethod
    def read(cls, specification: str) -> "InitialWeights":
        """Open RUN, or RUN:part,part; refuse a part that the run has no weights of."""
        path, parts = run_and_parts(specification)
        initial = cls(load(path), parts)
        names = _all_names(initial.run.model)
        for part in initial.parts:
            if not any(_within(name, part) for name in names):
                raise UserError(
                    f"init: {path} has no weights of {part!r}; its parts are "
                    f"{', '.join(dict.fromkeys(map(_part, names)))}."
                )
        return initial

    @property
    def weights(self) -> dict[str, Tensor]:
        """The chosen weights by name; one that is shared stands under each of its names."""
        return {
            name: weight.detach()
            for name, weight in _all_names(self.run.model).items()
            if not self.parts or any(_within(name, part) for part in self.parts)
        }

    def make_task(self, config: Config) -> tuple[Config, Task]:
        """The task of the new run, with this run's tokenizers where their weights are taken."""
        weights = self.weights
        sides = {side for name in weights if (side := _side(name, self.run.model))}
        while True:
            changed = _with_tokenizer_settings(config, self.run.config, sides)
            task = _make_task(changed, self._tokenizers(changed, sides))
            model = task.build_model()
            usable = {
                _side(name, model)
                for name in _all_names(model)
                if name in weights and self._same_vocabulary(name, model, task)
            }
            if sides <= usable:
                return changed, task
            sides = {side for side in sides if side in usable}

    def _tokenizers(self, config: Config, sides: Collection[VocabularySide]) -> dict[str, str]:
        """This run's tokenizers, by the names of the files that they have in the new run."""
        every, ours = self.run.task.files, TASKS[config.task].FILES
        theirs = dict(_vocabularies(self.run.task))
        kept = {name: every[name] for name in every.keys() - theirs.keys() if name in ours}
        pairs: dict[VocabularySide, tuple[str, str]] = {
            "generated": (list(theirs)[-1], ours[0] if config.tokenizer.joint else ours[-1]),
            "read": (next(iter(theirs)), ours[0]),  # second: a joint file is that of the source
        }
        taken = {
            new: theirs[old]
            for side, (old, new) in pairs.items()
            if side in sides and _is_tokenizer(old) and _is_tokenizer(new)
        }
        return taken | kept if taken else {}  # a chat template goes with its tokenizer

    def _same_vocabulary(self, name: str, model: nn.Module, task: Task) -> bool:
        """Whether the rows of a weight stand for the same tokens or classes in both runs."""
        _, theirs = _vocabulary(name, self.run.model, self.run.task)
        _, ours = _vocabulary(name, model, task)
        return theirs == ours

    def copy_to(
        self, model: nn.Module, task: Task, *, say: Callable[[str], None], anew: int = 0
    ) -> None:
        """Put every weight that fits into a model, and say which those are and which are new.

        anew: how many of the top layers of its body stay as the seed made them.
        """
        stays = begun_anew(model, anew)
        weights, places = self.weights, dict(model.named_parameters())
        own_names = {id(place): name for name, place in places.items()}
        unlike = {  # a bias means nothing where the matrix beside it has another shape
            _owner(name)
            for name, place in _all_names(model).items()
            if name in weights and weights[name].shape != place.shape
        }
        taken: dict[str, str] = {}  # by its name in the model, the name in the run
        for name, place in _all_names(model).items():
            own_name = own_names[id(place)]
            fits = name in weights and name not in stays and _owner(name) not in unlike
            if fits and own_name not in taken and self._same_vocabulary(name, model, task):
                with torch.no_grad():
                    place.copy_(weights[name])
                taken[own_name] = name
        if not taken:
            raise UserError(
                f"init: no weight of {self.run.path} has the name and the shape of one of this "
                f"model, whose parts are {_listed(places, places)}."
            )
        for sentence in self._account(taken, places):
            say(sentence)

    def _account(self, taken: dict[str, str], places: Collection[str]) -> Iterator[str]:
        """What was taken, what is new, and what was not used, one sentence each."""
        path, aliases = self.run.path, _all_names(self.run.model)
        used = {id(aliases[name]) for name in taken.values()}
        chosen: dict[int, str] = {}
        for name in self.weights:
            chosen.setdefault(id(aliases[name]), name)
        new = [name for name in places if name not in taken]
        unused = [name for weight, name in chosen.items() if weight not in used]
        yield f"Taken from {path}: {len(taken)} of {len(places)} weights: {_listed(taken, places)}."
        if new:
            yield f"New, made from the seed: {_listed(new, places)}."
        if unused:
            yield f"Not used, of {path}: {_listed(unused, chosen.values())}."
        files = {_vocabulary(name, self.run.model, self.run.task)[0] for name in taken.values()}
        if any(map(_is_tokenizer, files)):
            yield f"The tokenizer is that of {path}."


def run_and_parts(specification: str) -> tuple[str, tuple[str, ...]]:
    """RUN:part,part as the path of a run and the parts that are named; RUN alone names none."""
    if is_run(Path(specification)) or ":" not in specification:
        return specification, ()
    path, _, listed = specification.rpartition(":")
    parts = tuple(part.strip() for part in listed.split(","))
    if not all(parts):
        raise UserError(
            f"init: a part is missing after the colon of {specification!r}; name parts, as "
            f"in {path}:encoder, or leave the colon out to take all weights."
        )
    return path, parts


def _make_task(config: Config, tokenizers: dict[str, str]) -> Task:
    """A task with these files; what is not among them is learned from the training data."""
    kind = TASKS[config.task]
    if not tokenizers:
        return kind.learn(config)
    try:
        return kind.open(config, tokenizers)
    except ValueError:  # labels, or the other side's tokenizer, are still to be learned
        return kind.open(config, kind.learn(_quick_to_learn(config, tokenizers)).files | tokenizers)


def _quick_to_learn(config: Config, tokenizers: Collection[str]) -> Config:
    """The same, with a tokenizer that takes no time to learn, where all of them are known."""
    if not all(name in tokenizers for name in TASKS[config.task].FILES if _is_tokenizer(name)):
        return config
    characters = config.tokenizer.model_copy(update={"kind": "chars", "dropout": 0.0})
    return config.model_copy(update={"tokenizer": characters})


def _with_tokenizer_settings(
    config: Config, other: Config, sides: Collection[VocabularySide]
) -> Config:
    """A configuration whose section `tokenizer` describes the tokenizers that are taken."""
    if not sides:
        return config
    theirs, values = other.tokenizer, config.model_dump()
    read, generated = config.tokenizer.kinds
    read = theirs.kinds[0] if "read" in sides else read
    generated = theirs.kinds[1] if "generated" in sides else generated
    joint_kind = read if "read" in sides else generated
    values["tokenizer"] |= theirs.options | (
        {"kind": joint_kind, "target_kind": None}
        if config.tokenizer.joint
        else {"kind": read, "target_kind": generated}
    )
    return configuration.validate(values, where="init")


def _vocabulary(name: str, model: nn.Module, task: Task) -> tuple[str, str]:
    """The file that says what the rows of a weight stand for, and its text; or neither."""
    side, files = _side(name, model), _vocabularies(task)
    return ("", "") if side is None else files[0] if side == "read" else files[-1]


def _vocabularies(task: Task) -> list[tuple[str, str]]:
    """The files that hold tokens or classes, with their texts."""
    return [(name, text) for name, text in task.files.items() if name.endswith(".json")]


def _side(name: str, model: Any) -> VocabularySide | None:
    sides = model.vocabulary_parts.items()
    return next((side for part, side in sides if _within(name, part)), None)


def _is_tokenizer(file: str) -> bool:
    return file.endswith("tokenizer.json")


def _part(name: str) -> str:
    """What a weight is of, in messages: body.encoder, output."""
    first, *others = name.split(".")
    return f"body.{others[0]}" if first == "body" else first


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _all_names(model: nn.Module) -> dict[str, nn.Parameter]:
    """Every weight under every name that it has: a shared one has several."""
    return dict(model.named_parameters(remove_duplicate=False))


def _listed(names: Iterable[str], among: Iterable[str]) -> str:
    """The parts that weights are of, with how many where it is not all of a part."""
    totals = Counter(map(_part, among))
    return ", ".join(
        part if count == totals[part] else f"{part} ({count} of {totals[part]})"
        for part, count in Counter(map(_part, names)).items()
    )
