"""Files that are either whole or not there: written aside, flushed to disk, then renamed."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.errors import UserError


@contextlib.contextmanager
def saying_what_failed(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        full = not isinstance(error, OSError) or error.errno in (ENOSPC, EFBIG, EDQUOT)
        raise UserError(
            f"{path} could not be written: {reason}. What was saved before is untouched; "
            f"{'make room and ' if full else ''}try again (a training goes on with --resume)."
        ) from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A path beside this one to write a file or folder at; it takes the name once it is whole.

    Whatever fails in between (a full disk above all) leaves what stood here before as it was.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with saying_what_failed(path):
            yield aside
            for part in sorted(aside.rglob("*")) if aside.is_dir() else []:
                _flush(part)
            _flush(aside)
            os.replace(aside, path)
            _flush(path.parent)
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


def append_line(path: Path, line: str) -> None:
    """One more line at the end of a text file."""
    with saying_what_failed(path), path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def write_tensors(
    path: Path, tensors: dict[str, Tensor], *, metadata: dict[str, str] | None = None
) -> None:
    """Named tensors as safetensors."""
    values = {name: value.detach().contiguous().cpu() for name, value in tensors.items()}
    # One entry: the library writes several in any order, and equal runs should have equal bytes.
    entries = json.dumps((metadata or {}) | {"content": _content(values)}, sort_keys=True)
    save_file(values, path, {"regard": entries})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Named tensors and the metadata beside them, or one sentence on what is wrong."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = json.loads((file.metadata() or {}).get("regard", "{}"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: train the run, or put the file back.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): put a good copy back.") from None
    if metadata.get("content") != _content(tensors):
        raise UserError(f"{path} is damaged (its hash differs): put a good copy back.")
    return tensors, metadata


def _content(tensors: dict[str, Tensor]) -> str:
    """The hash of all names and numbers."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


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
                f"{path} was trained with another {name} than stands beside it (hash "
                f"{written.get(name, 'none')[:12]}, not {value[:12]}); put that one back."
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
