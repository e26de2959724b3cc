"""Files that are either whole or not there: written aside, flushed to disk, then renamed."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.errors import UserError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A path beside this one to write a file or folder at; it takes the name once it is whole.

    Whatever fails in between (a full disk above all) leaves what stood here before as it was.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        for part in sorted(aside.rglob("*")) if aside.is_dir() else []:
            _flush(part)
        _flush(aside)
        os.replace(aside, path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            f"{path} could not be written: {reason}. What was saved before is untouched; "
            f"make room, then go on with --resume."
        ) from error
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    with writing(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def write_tensors(
    path: Path, tensors: dict[str, Tensor], *, metadata: dict[str, str] | None = None
) -> None:
    """Named tensors as safetensors."""
    save_file(
        {name: value.detach().contiguous().cpu() for name, value in tensors.items()}, path, metadata
    )


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Named tensors and the metadata beside them, or one sentence on what is wrong."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} is missing.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged: {error}.") from None


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, by its first name: a shared one is not written twice."""
    return {name: parameter.data for name, parameter in model.named_parameters()}


def read_weights(path: Path, model: nn.Module, *, metadata: dict[str, str]) -> None:
    """Put the weights of a file into a model.

    Each must be there, with its shape, and none besides; and what was written beside them (the
    hash of their tokenizer) must be what is expected now.
    """
    tensors, written = read_tensors(path)
    for name, value in metadata.items():
        if written.get(name) != value:
            raise UserError(
                f"{path} was trained with another {name} than the {name}.json beside it "
                f"(hash {written.get(name, 'none')[:12]}, not {value[:12]}); put it back."
            )
    expected = weights(model)
    for name in sorted(expected.keys() ^ tensors.keys()):
        fault = "lacks the" if name in expected else "holds an unexpected"
        raise UserError(f"{path} {fault} weight {name!r}: it belongs to another model.")
    for name, place in expected.items():
        if place.shape != tensors[name].shape:
            raise UserError(
                f"{path}: {name} has shape {tuple(tensors[name].shape)} where the configuration "
                f"asks for {tuple(place.shape)}."
            )
        place.copy_(tensors[name])


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
