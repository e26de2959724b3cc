"""The tokenizer and the chat template of a Hugging Face folder, read and written."""

import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from regard.config import read_text
from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.system.errors import UserError
from regard.system.files import saying_why_unreadable
from regard.system.json_files import JsonError, read_json

SPECIAL = {"start": "bos_token", "end": "eos_token", "padding": "pad_token", "unknown": "unk_token"}
"""Our names of special ids, and theirs."""


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder, with the special ids that its settings name."""
    backend = _backend(folder)
    ids = {ours: special_id(backend, folder, theirs) for ours, theirs in SPECIAL.items()}
    end = ids["end"]
    if end is None:
        raise UserError(
            f"{folder} does not say which token ends a text: give tokenizer_config.json an "
            f"eos_token."
        )
    others = {name: token for name, token in ids.items() if name != "end" and token != end}
    if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel) or _is_byte_level(backend):
        others.pop("unknown", None)  # every text has bytes
    start = others.get("start")
    opening = (start,) if start is not None and _begins_with(backend, start) else ()
    special = SpecialIds(end=end, opening=opening, **others)
    return make_tokenizer(backend, special, where=str(folder))


def make_tokenizer(backend: tokenizers.Tokenizer, special: SpecialIds, *, where: str) -> Tokenizer:
    """A tokenizer of ours, whose ids have no gaps."""
    largest, size = max(backend.get_vocab().values(), default=-1), backend.get_vocab_size()
    if largest + 1 != size:
        raise UserError(
            f"{where}: its tokenizer has {size:,} tokens and ids up to {largest:,}: a vocabulary "
            f"with gaps cannot be imported."
        )
    try:
        return Tokenizer(backend.to_str(), special)
    except ValueError as error:
        raise UserError(f"{where}: its tokenizer cannot be used: {error}.") from None


def read_template(folder: Path) -> str | None:
    """The chat template of a folder, if it has one."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return read_text(file)
    template = settings_in(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {entry.get("name"): entry for entry in template if isinstance(entry, dict)}
        template = named.get("default", {}).get("template")
    return template if isinstance(template, str) else None


def _backend(folder: Path) -> tokenizers.Tokenizer:
    file, vocabulary, merges = (
        folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt")
    )
    if file.is_file():
        return library_tokenizer(file)
    try:
        if vocabulary.is_file() and merges.is_file():
            return _byte_pairs(_read(vocabulary, dict[str, int]), read_text(merges))
    except UserError:
        raise
    except Exception as error:  # as above
        raise UserError(f"{folder}: its tokenizer cannot be read: {error}.") from None
    if (folder / "tokenizer.model").is_file():
        raise UserError(
            f"{folder} has a SentencePiece tokenizer.model and no tokenizer.json: open it with "
            f"transformers' AutoTokenizer and save it with save_pretrained, which writes one."
        )
    raise UserError(f"{folder} has no tokenizer: tokenizer.json, or vocab.json and merges.txt.")


def library_tokenizer(file: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a `tokenizer.json`; it cuts and pads nothing, whatever stands there."""
    try:
        backend = tokenizers.Tokenizer.from_str(read_text(file))
    except UserError:
        raise
    except Exception as error:  # the library raises plain Exception for a malformed file
        raise UserError(f"{file.parent}: its tokenizer cannot be read: {error}.") from None
    backend.no_truncation()
    backend.no_padding()
    return backend


def _byte_pairs(vocabulary: dict[str, int], merges: str) -> tokenizers.Tokenizer:
    """GPT-2's tokenizer (Radford et al. 2019, §2.2) from its two files."""
    lines = [line for line in merges.split("\n") if line and not line.startswith("#version")]
    for line in lines:
        if line.count(" ") != 1:
            raise UserError(f"merges.txt: {line!r} is not two tokens with a space between them.")
    pairs = [(line.split(" ")[0], line.split(" ")[1]) for line in lines]
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    known = [token for token in vocabulary if token.startswith("<|") and token.endswith("|>")]
    backend.add_special_tokens(known)
    return backend


def _is_byte_level(backend: tokenizers.Tokenizer) -> bool:
    return isinstance(backend.decoder, decoders.ByteLevel)


def _begins_with(backend: tokenizers.Tokenizer, start: int) -> bool:
    """Whether the tokenizer puts its first special token before a text by itself."""
    return backend.encode("a").ids[:1] == [start]


def special_id(backend: tokenizers.Tokenizer, folder: Path, name: str) -> int | None:
    """The id of a special token: by its text in the tokenizer's settings, else from config.json."""
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        token = settings_in(folder / file).get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str) and (known := backend.token_to_id(text)) is not None:
            return known
    number = settings_in(folder / "config.json").get(f"{name}_id")
    first: Any = number[0] if isinstance(number, list) and number else number
    is_token = isinstance(first, int) and backend.id_to_token(first) is not None
    return first if is_token else None


def settings_in(file: Path) -> dict[str, Any]:
    """The values of a JSON file; none if there is no file."""
    with saying_why_unreadable(file):
        there = file.is_file()
    return _read(file, dict[str, Any]) if there else {}


def _read(file: Path, kind: Any) -> Any:
    try:
        return read_json(file, kind)
    except JsonError as error:
        raise UserError(f"{error}.") from None


def write_json(file: Path, values: dict[str, Any]) -> None:
    """A JSON file of the values that are not None."""
    present = {name: value for name, value in values.items() if value is not None}
    file.write_text(json.dumps(present, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    library_json: str,
    *,
    names: dict[str, str],
    context: int,
    **settings: Any,
) -> None:
    """The tokenizer and its settings, in which special tokens stand by their texts.

    names: what they call our special ids. context: how many tokens the model can read. settings:
    other keys of tokenizer_config.json.
    """
    named = {
        theirs: tokenizer.tokens([number])[0]
        for ours, theirs in names.items()
        if (number := getattr(tokenizer.special, ours)) is not None
    }
    general = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer.json").write_text(library_json, encoding="utf-8")
    write_json(folder / "tokenizer_config.json", general | settings | named)
