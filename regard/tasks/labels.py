"""Labels: the classes of a task, each with a number, as a run keeps them."""

import json
from collections.abc import Iterable, Sequence

from regard.system.errors import UserError


class Labels:
    """Classes in order: number n is the n-th of them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    @classmethod
    def learn(cls, names: Iterable[str], *, path: object, key: str) -> "Labels":
        """All classes that training data has, in alphabetical order.

        path, key: the file and the configuration key of the data, for messages.
        """
        labels = cls(sorted(set(names)))
        if not labels.names:
            raise UserError(f"{path}: there is no usable line in it.")
        if len(labels) < 2:
            raise UserError(
                f"{key} has only one class, {labels.names[0]!r}; a classifier needs two."
            )
        return labels

    @classmethod
    def read(cls, files: dict[str, str], name: str) -> "Labels":
        """The classes in one of a run's files, given by their texts."""
        if name not in files:
            raise ValueError(f"{name} is missing: a run cannot name its classes without it")
        try:
            names = json.loads(files[name])
        except ValueError:
            names = None
        is_list = isinstance(names, list) and all(isinstance(label, str) for label in names)
        if not is_list or len(set(names)) != len(names) or len(names) < 2:
            raise ValueError(f"{name} is not a list of classes")
        return cls(names)

    @property
    def json(self) -> str:
        """The text of the file."""
        return json.dumps(self.names, ensure_ascii=False, indent=1)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return self.names[number]

    def number(self, name: str) -> int | None:
        """The number of a class; None if training data has no such class."""
        return self._numbers.get(name)
