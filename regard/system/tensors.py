"""Named tensors in safetensors files, each with the hash of what it holds."""

import hashlib
import json
from errno import ENOSPC
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.system.errors import UserError
from regard.system.schema import SCHEMA, current_name


def write_tensors(
    path: Path, tensors: dict[str, Tensor], *, metadata: dict[str, str] | None = None
) -> None:
    """Named tensors as safetensors."""
    values = {name: value.detach().contiguous().cpu() for name, value in tensors.items()}
    # One entry: the library writes several in any order, and equal runs should have equal bytes.
    own = {"content": _content(values), "schema": SCHEMA}
    entries = json.dumps((metadata or {}) | own, sort_keys=True)
    try:
        save_file(values, path, {"regard": entries})
    except SafetensorError as error:  # what the library makes of a full disk
        raise OSError(ENOSPC, str(error)) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Named tensors and the metadata beside them, or one sentence on what is wrong.

    Tensors that an earlier version wrote get the names that they have now.
    """
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
    schema = metadata.get("schema", 1)  # the first version did not write its number
    return {current_name(name, schema=schema): value for name, value in tensors.items()}, metadata


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
                f"{path} was trained with another {name} than the one in its directory (hash "
                f"{written.get(name, 'none')[:12]}, not {value[:12]}); restore that one."
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
