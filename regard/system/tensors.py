"""Named tensors in safetensors files, each with the hash of what it holds."""

import ctypes
import errno
import hashlib
import json
import os
import re
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable
from regard.system.json_files import parse_json
from regard.system.schema import SCHEMA, current_name
from regard.system.shards import part_of

Tensors = dict[str, Tensor]
Metadata = dict[str, str | int]

HASH_VERSION = 2
"""What the hash covers: 1 names and numbers; 2 types, shapes and the other metadata as well."""


def write_tensors(path: Path, tensors: Tensors, *, metadata: dict[str, str] | None = None) -> None:
    """Write named tensors as safetensors; refuse those that could not be read again."""
    values = {name: value.detach().contiguous().cpu() for name, value in tensors.items()}
    faulty = _first_not_finite(values)
    if faulty is not None:
        raise UserError(
            f"The weight {faulty} is not finite: training has diverged. Try a lower train.lr; "
            f"what was saved before is untouched."
        )
    # One entry: the library writes several in any order, and equal runs should have equal bytes.
    own: Metadata = {**(metadata or {}), "hash": HASH_VERSION, "schema": SCHEMA}
    entries = json.dumps(own | {"content": _content(values, own)}, sort_keys=True)
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(values, path, {"regard": entries})
    except SafetensorError as error:  # what the library makes of a full disk
        number = re.search(r"os error (\d+)", str(error))
        cause = int(number[1]) if number else errno.EIO
        raise OSError(cause, os.strerror(cause)) from error
    path.chmod(mode)  # the library gives its files to their owner alone


def read_tensors(path: Path) -> tuple[Tensors, Metadata]:
    """Named tensors and the metadata beside them, or one sentence on what is wrong.

    Tensors that an earlier version wrote get the names that they have now.
    """
    with saying_why_unreadable(path):
        if not path.exists():
            raise UserError(f"{path} is missing: train the run, or put the file back.")
        path.open("rb").close()
    try:
        with safe_open(path, framework="pt") as file:
            # A copy: the file's own bytes are not aligned as torch's are, and a product of numbers
            # that are aligned otherwise may be rounded otherwise.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            entries = (file.metadata() or {}).get("regard", "{}")
        metadata: Metadata = parse_json(entries, Metadata, where="its metadata")
        intact = metadata.pop("content", None) == _content(tensors, metadata)
    except (SafetensorError, OSError, ValueError, LookupError, RuntimeError) as error:
        raise UserError(f"{path} is damaged ({error}): put a good copy back.") from None
    schema = metadata.get("schema", 1)  # the first version did not write its number
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise UserError(f"{path} was made by another Regard (schema {schema!r}).")
    if not intact:
        raise UserError(f"{path} is damaged (its hash differs): put a good copy back.")
    faulty = _first_not_finite(tensors)
    if faulty is not None:
        raise UserError(
            f"{path}: {faulty} has numbers that are not finite (NaN or infinity): put a good copy "
            f"back."
        )
    return {current_name(name, schema=schema): value for name, value in tensors.items()}, metadata


def _first_not_finite(tensors: Tensors) -> str | None:
    """The first tensor with a number that is NaN or infinite."""
    return next((name for name, value in tensors.items() if not value.isfinite().all()), None)


def _content(tensors: Tensors, metadata: Metadata) -> str:
    """The hash of all that a file holds, as the version in its metadata says."""
    digest = hashlib.sha256()
    whole = metadata.get("hash", 1) != 1
    if whole:
        digest.update(json.dumps(metadata, sort_keys=True).encode())
    for name, value in sorted(tensors.items()):
        form = f"{name} {value.dtype} {tuple(value.shape)} " if whole else name
        digest.update(form.encode())
        digest.update(_bytes(value))
    return digest.hexdigest()


def _bytes(value: Tensor) -> "ctypes.Array[ctypes.c_char]":
    """The memory of a contiguous tensor on the CPU, without a copy.

    Not by way of numpy: torch could no longer free memory that numpy has seen, as it does with the
    weights that a sharded model has gathered for a while.
    """
    return (ctypes.c_char * value.nbytes).from_address(value.data_ptr())


def weights(model: nn.Module) -> Tensors:
    """Every weight once, by its first name: a shared one is not written twice."""
    return {name: parameter.data for name, parameter in model.named_parameters()}


def require_metadata(path: Path, metadata: dict[str, str]) -> None:
    """Refuse a file of weights that belongs to another tokenizer or configuration."""
    _, written = read_tensors(path)
    _check_metadata(path, metadata, written)


def read_weights(path: Path, model: nn.Module, *, metadata: dict[str, str]) -> None:
    """Put the weights of a file into a model.

    Each must be there, with its type and shape, and none besides; and what was written beside them
    (the hash of their tokenizer, the keys that predictions depend on) must be what it is now.
    """
    tensors, written = read_tensors(path)
    _check_metadata(path, metadata, written)
    expected = weights(model)
    for name in sorted(expected.keys() ^ tensors.keys()):
        fault = "lacks the" if name in expected else "holds an unexpected"
        raise UserError(f"{path} {fault} weight {name!r}: it belongs to another model.")
    for name, place in expected.items():
        value = tensors[name]
        if place.shape != value.shape:
            raise UserError(
                f"{path}: {name} has shape {tuple(value.shape)} where the configuration "
                f"asks for {tuple(place.shape)}."
            )
        if place.dtype != value.dtype:
            raise UserError(f"{path}: {name} has numbers of {value.dtype}, not of {place.dtype}.")
        place.copy_(part_of(value, place))


def _check_metadata(path: Path, expected: dict[str, str], written: Metadata) -> None:
    """Refuse weights that belong to another tokenizer or configuration.

    A name with a dot is that of a configuration key, and its value is the key's; other values are
    hashes. Files with the first version of the hash have no such keys.
    """
    for name, value in expected.items():
        is_key, before = "." in name, str(written.get(name, "none"))
        if before == value or (is_key and "hash" not in written):
            continue
        if is_key:
            raise UserError(
                f"{path} was trained with {name}={before} where config.yaml has {value}: put that "
                f"back."
            )
        raise UserError(
            f"{path} was trained with another {name} than the one in its directory (hash "
            f"{before[:12]}, not {value[:12]}); restore that one."
        )
