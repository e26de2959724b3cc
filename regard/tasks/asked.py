"""What is asked of a run: lines to predict, and how."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from regard.config import Decode
from regard.data.lines import broken
from regard.system.errors import UserError


@dataclass(frozen=True)
class Asked:
    """Lines, and all that can be said about predicting them."""

    lines: Sequence[str]
    decode: Decode
    _: KW_ONLY
    name: str = "line"
    """What a line is called in a message."""
    first: int = 0
    """How many lines went before these."""
    prefix: str = ""
    """What every output begins with."""
    aligned: bool = False
    """With the words of the source that each word of the output comes from."""
    refused: Callable[[str], None] | None = None
    """Is told of a line that cannot be read, which has no output then; else it is an error."""

    def __post_init__(self) -> None:
        if isinstance(self.lines, str):
            raise TypeError("predict takes a list of lines, not one string")

    def readable(self, check: Callable[..., None]) -> list[int]:
        """The numbers of the lines that pass a check, which is told the place of each."""
        found = []
        for number, line in enumerate(self.lines):
            where = f"{self.name}:{self.first + number + 1}"
            try:
                if broken(line):
                    raise UserError(f"{where}: not UTF-8 text; save the file as UTF-8.")
                check(line, where=where)
                found.append(number)
            except UserError as error:
                if self.refused is None:
                    raise
                self.refused(str(error))
        return found

    def only_of_a_translator(self, task: str) -> None:
        """Refuse what takes a source to read and an output to write."""
        if self.prefix or self.aligned:
            option = "prefix" if self.prefix else "align"
            raise UserError(f"{option} is for task=translate; this run's task is {task}.")
