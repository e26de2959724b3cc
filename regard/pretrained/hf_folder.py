"""Import from a Hugging Face folder: configuration, weights in one or several files, tokenizer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from regard.pretrained.architecture import Architecture
from regard.pretrained.families import reader_of
from regard.pretrained.hf_tokenizer import read_template, read_tokenizer
from regard.pretrained.imported import Imported, run_of
from regard.pretrained.names import Tensors, place_of
from regard.pretrained.pickles import refuse_pickle
from regard.pretrained.wordpiece import read_wordpiece
from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable
from regard.system.json_files import JsonError, read_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
NOT_WEIGHTS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq", ".position_ids")
"""Constants that older files hold: masks, frequencies, 0 1 2 3 …"""
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""What the first files of BERT call the weights of a norm."""


def read_folder(folder: Path) -> Imported:
    """The model in a Hugging Face folder, of the GPT-2, the Llama or the BERT family."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no Hugging Face model: config.json is missing.")
    reader = reader_of(folder)
    theirs = _current(read_safetensors(folder))
    architecture = reader(folder, theirs)
    theirs = _with_prefix(theirs, architecture)
    for name in architecture.copies:
        theirs.pop(name, None)
    tokenizer = read_wordpiece(folder) if architecture.framed else read_tokenizer(folder)
    return run_of(
        architecture, theirs, tokenizer, template=read_template(folder), where=str(folder)
    )


def read_safetensors(folder: Path) -> Tensors:
    """All weights of a folder: of one file, or of the shards that its index names."""
    if (folder / INDEX).is_file():
        return _shards(folder)
    if (folder / WEIGHTS).is_file():
        return _one_file(folder / WEIGHTS)
    for file in sorted(folder.iterdir()):
        refuse_pickle(file)
    raise UserError(f"{folder} has no weights: {WEIGHTS} is missing.")


def _shards(folder: Path) -> Tensors:
    try:
        index: dict[str, Any] = read_json(folder / INDEX, dict[str, Any])
    except JsonError as error:
        raise UserError(f"{error}.") from None
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise UserError(f"{folder / INDEX} has no weight_map: it says where each weight stands.")
    tensors: Tensors = {}
    for file in sorted(set(places.values())):
        refuse_pickle(Path(file))
        if Path(file).name != file:
            raise UserError(f"{folder / INDEX} names {file}, which is not a file of its folder.")
        if not (folder / file).is_file():
            raise UserError(
                f"{folder}: the shard {file} is missing: copy it there as well, or copy the "
                f"whole folder again."
            )
        tensors |= _one_file(folder / file)
    _require(places, tensors, folder)
    return tensors


def _require(names: Iterable[str], tensors: Tensors, folder: Path) -> None:
    for name in names:
        if name not in tensors:
            raise UserError(f"{folder}: none of its shards holds {name}, which its index names.")


def _one_file(path: Path) -> Tensors:
    with saying_why_unreadable(path):
        path.open("rb").close()
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(
            f"{path} is not a whole safetensors file ({error}): copy it again."
        ) from None


def _current(tensors: Tensors) -> Tensors:
    """The weights alone, under the names that newer files have."""
    current = {}
    for name, value in tensors.items():
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        if not f".{name}".endswith(NOT_WEIGHTS):
            current[name] = value
    return current


def _with_prefix(tensors: Tensors, architecture: Architecture) -> Tensors:
    """The weights as a model with its output layer names them; the body alone has no prefix."""
    (name,) = place_of(architecture.rows[0], architecture.table).names
    prefix, _, bare = name.partition(".")
    if bare not in tensors:
        return tensors
    return {
        name if name == "lm_head.weight" else f"{prefix}.{name}": tensor
        for name, tensor in tensors.items()
    }
