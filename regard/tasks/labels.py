"""Labels: the classes of a task, each with a number, as a run keeps them."""

import json
import unicodedata
from collections.abc import Iterable, Sequence

from regard.data.vocabularies import Normalize
from regard.system.errors import UserError
from regard.system.json_files import JsonError, parse_json


def normal_name(name: str, normalize: Normalize) -> str:
    """The name of a class in a normal form: é in one character and in two is one class."""
    if normalize == "none":
        return name
    return unicodedata.normalize("NFC" if normalize == "nfc" else "NFKC", name)


class Labels:
    """Classes in order: number n is the n-th of them.

    normalize: the form that names are compared in, as `tokenizer.normalize` has it.
    """

    def __init__(self, names: Sequence[str], *, normalize: Normalize = "none") -> None:
        self.names = list(names)
        self._normalize = normalize
        self._numbers = {name: number for number, name in enumerate(self.names)}

    @classmethod
    def learn(
        cls, names: Iterable[str], *, normalize: Normalize = "none", path: object, key: str
    ) -> "Labels":
        """All classes that training data has, each in its normal form, in alphabetical order.

        path, key: the file and the configuration key of the data, for messages.
        """
        normal = {normal_name(name, normalize) for name in set(names)}
        labels = cls(sorted(normal), normalize=normalize)
        if not labels.names:
            raise UserError(f"{path}: there is no usable line in it.")
        if len(labels) < 2:
            raise UserError(
                f"{key} has only one class, {labels.names[0]!r}; a classifier needs two."
            )
        return labels

    @classmethod
    def read(cls, files: dict[str, str], name: str, *, normalize: Normalize = "none") -> "Labels":
        """The classes in one of a run's files, given by their texts, as they are there."""
        if name not in files:
            raise ValueError(f"{name} is missing: a run cannot name its classes without it")
        try:
            names: list[str] = parse_json(files[name], list[str], where=name)
        except JsonError as error:
            raise ValueError(f"{name} is not a list of classes: {error.reason}") from None
        if len(set(names)) != len(names) or len(names) < 2:
            raise ValueError(f"{name} is not a list of classes")
        return cls(names, normalize=normalize)

    @property
    def json(self) -> str:
        """The text of the file."""
        return json.dumps(self.names, ensure_ascii=False, indent=1)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return self.names[number]

    def number(self, name: str) -> int | None:
        """The number of a class; None if training data has no such class.

        By its name as it is, first: a run may have classes that differ in their form alone.
        """
        if name in self._numbers:
            return self._numbers[name]
        return self._numbers.get(normal_name(name, self._normalize))

    def known_name(self, name: str) -> str:
        """The name of a class as the run has it; the same one, if it has none such."""
        number = self.number(name)
        return name if number is None else self.names[number]
