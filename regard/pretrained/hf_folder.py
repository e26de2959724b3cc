"""Import from a Hugging Face folder: configuration, weights in one or several files, tokenizer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from regard.config import read_text
from regard.pretrained.families import read_architecture
from regard.pretrained.hf_tokenizer import read_template, read_tokenizer
from regard.pretrained.imported import Imported, language_model_of
from regard.pretrained.names import Tensors, place_of
from regard.pretrained.pickles import refuse_pickle
from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable
from regard.system.json_files import JsonError, read_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
NOT_WEIGHTS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""Constants that older files hold: masks and frequencies."""


def read_folder(folder: Path) -> Imported:
    """The model in a Hugging Face folder, of the GPT-2 or the Llama family."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no Hugging Face model: config.json is missing.")
    where = str(folder / "config.json")
    architecture = read_architecture(read_text(folder / "config.json"), where=where)
    theirs = _with_prefix(read_safetensors(folder), architecture.table)
    if architecture.keys["tie_embeddings"]:
        (output,) = place_of("output.weight", architecture.table).names
        theirs.pop(output, None)  # a copy of the embedding
    return language_model_of(
        architecture,
        theirs,
        read_tokenizer(folder),
        template=read_template(folder),
        where=str(folder),
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


def _with_prefix(tensors: Tensors, table: dict[str, Any]) -> Tensors:
    """The weights as a model with its output layer names them; the body alone has no prefix."""
    (name,) = place_of("embedding.tokens.weight", table).names
    prefix, _, bare = name.partition(".")
    kept = {key: value for key, value in tensors.items() if not key.endswith(NOT_WEIGHTS)}
    if bare not in kept:
        return kept
    return {key if key == "lm_head.weight" else f"{prefix}.{key}": kept[key] for key in kept}
