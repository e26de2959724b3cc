"""Where the examples of one split come from: a generator or a file."""

from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path

from regard.config import Data
from regard.data.class_folders import has_class_folders
from regard.data.generators import GENERATORS
from regard.data.installed import INSTALLED, installed_file
from regard.data.splits import Pair, Split
from regard.system.errors import UserError


def hash_of(path: Path) -> str:
    """SHA-256 of a file's bytes; of a folder, those of all files in it, or one of them all."""
    if has_class_folders(path):
        files = sorted(file for file in path.rglob("*") if file.is_file())
        names = "".join(f"{file.relative_to(path)}\0{hash_of(file)}\n" for file in files)
        return sha256(names.encode()).hexdigest()
    if path.is_dir():
        return "+".join(hash_of(file) for file in sorted(path.rglob("*")) if file.is_file())
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


NAMED = f"a generator ({', '.join(GENERATORS)}) nor an installed text ({', '.join(INSTALLED)})"
"""What a name may be that is not of a file."""


@dataclass
class Source:
    """A generator's name, or a file in the data's directory."""

    name: str
    split: Split
    data: Data

    def __post_init__(self) -> None:
        if self.generated and self.data.held_out:
            raise UserError(
                f"data.held_out is for files; the generator {self.name} holds out its own examples."
            )

    @property
    def generated(self) -> bool:
        """Whether a generator makes the examples."""
        return self.name in GENERATORS

    @property
    def path(self) -> Path:
        if self.name in INSTALLED:
            return installed_file(self.name)
        return Path(self.data.directory) / self.name

    @property
    def of_training(self) -> bool:
        """Whether it is the file that is trained on."""
        directory = Path(self.data.directory)
        return directory / self.name == directory / self.data.train

    @property
    def fingerprint(self) -> str:
        """What the examples depend on: the generator's name, or the hash of the file."""
        return self.name if self.generated else hash_of(self.path)

    def generate(self) -> list[Pair]:
        """A generator's examples of this split, in its first epoch."""
        generator = GENERATORS[self.name]
        if self.split == "train":
            return generator.training(self.data, seed=0, epoch=0)
        return generator.held_out(self.data, self.split)

    def refuse_pipe(self, path: Path) -> None:
        """Refuse what can be read only once: data is read to learn a vocabulary, and again."""
        if path.is_fifo() or path.is_char_device() or path.is_socket():
            raise UserError(
                f"data.{self.split}={self.name!r}: {path} is a pipe or a device, which cannot be "
                f"read twice. Write its lines to a file, and name that."
            )

    def check_file(self) -> None:
        """Refuse a name that is neither a generator, nor an installed text, nor a file."""
        self.refuse_pipe(self.path)
        if not self.path.is_file():
            raise UserError(
                f"data.{self.split}={self.name!r} is neither {NAMED} nor a file: there is none at "
                f"{self.path} (--data says where the files are)."
            )
