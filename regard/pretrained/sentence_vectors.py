"""How an encoder's states become the vector of a text, in the files of sentence-transformers."""

import json
from pathlib import Path
from typing import Any

from regard.config import Model
from regard.system.errors import UserError
from regard.system.json_files import JsonError, read_json

MODULES, POOLING = "modules.json", "1_Pooling"
MODES = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}
"""Our poolings, and their keys."""
DEFAULT = {"pooling": "mean", "normalize": True}
"""What an encoder is read with that does not say how its vectors are made."""
TYPE = "sentence_transformers.models."


def read_pooling(folder: Path) -> dict[str, Any]:
    """The keys of `model` that say how a folder's vectors are made."""
    if not (folder / MODULES).is_file():
        return DEFAULT
    modules = _read(folder / MODULES, list[dict[str, Any]])
    kinds = {str(module.get("type", "")).rpartition(".")[2]: module for module in modules}
    for kind in kinds:
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UserError(
                f"{folder / MODULES}: a module {kind!r} is not supported: the vectors would differ."
            )
    if "Pooling" not in kinds:
        return DEFAULT | {"normalize": "Normalize" in kinds}
    file = folder / str(kinds["Pooling"].get("path", POOLING)) / "config.json"
    settings = _read(file, dict[str, Any])
    chosen = [key for key, value in settings.items() if key.startswith("pooling_mode") and value]
    names = [name for name, key in MODES.items() if chosen == [key]]
    if not names:
        raise UserError(
            f"{file}: pooling by {' and '.join(chosen) or 'nothing'} is not supported; it may be "
            f"{', '.join(MODES.values())}."
        )
    return {"pooling": names[0], "normalize": "Normalize" in kinds}


def write_pooling(folder: Path, model: Model) -> None:
    """The same keys as files; nothing where sentence-transformers has no such pooling."""
    if model.pooling not in MODES:
        return
    paths = {"Transformer": "", "Pooling": POOLING}
    if model.normalize:
        paths["Normalize"] = "2_Normalize"
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": TYPE + kind}
        for number, (kind, path) in enumerate(paths.items())
    ]
    modes = {key: name == model.pooling for name, key in MODES.items()}
    settings = {"word_embedding_dimension": model.d_model} | modes
    (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    for path in paths.values():
        (folder / path).mkdir(exist_ok=True)
    (folder / POOLING / "config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _read(file: Path, kind: Any) -> Any:
    try:
        return read_json(file, kind)
    except JsonError as error:
        raise UserError(f"{error}.") from None
