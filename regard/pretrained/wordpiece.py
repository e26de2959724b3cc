"""BERT's tokenizer (Devlin et al. 2019, §3): word pieces, from `tokenizer.json` or `vocab.txt`."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.config import read_text
from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.pretrained.hf_tokenizer import (
    library_tokenizer,
    make_tokenizer,
    settings_in,
    special_id,
)
from regard.system.errors import UserError

SPECIAL = {
    "start": ("cls_token", "[CLS]"),
    "end": ("sep_token", "[SEP]"),
    "unknown": ("unk_token", "[UNK]"),
    "padding": ("pad_token", "[PAD]"),
    "mask": ("mask_token", "[MASK]"),
}
"""Our names of special ids, theirs, and the tokens that stand for them if nothing is said."""
REQUIRED = ("start", "end", "unknown")
LONGEST_WORD = 100
"""A word of more characters is unknown, as in BERT's own code."""


def read_wordpiece(folder: Path) -> Tokenizer:
    """The tokenizer of a folder, with [CLS], [SEP] and the others by their roles."""
    backend, source = _backend(folder)
    ids: dict[str, Any] = {}
    for ours, (theirs, usual) in SPECIAL.items():
        number = special_id(backend, folder, theirs)
        ids[ours] = backend.token_to_id(usual) if number is None else number
        if ids[ours] is None and ours in REQUIRED:
            raise UserError(f"{source} has no {usual}, and nothing says what stands for it.")
    return make_tokenizer(backend, SpecialIds(**ids), where=str(folder))


def _backend(folder: Path) -> tuple[tokenizers.Tokenizer, Path]:
    """The library's tokenizer, and the file that it is from."""
    whole, vocabulary = folder / "tokenizer.json", folder / "vocab.txt"
    if whole.is_file():
        return library_tokenizer(whole), whole
    if vocabulary.is_file():
        return _from_vocabulary(vocabulary), vocabulary
    raise UserError(f"{folder} has no tokenizer: tokenizer.json, or vocab.txt.")


def _from_vocabulary(file: Path) -> tokenizers.Tokenizer:
    """One token per line; the number of a line is its id."""
    tokens = read_text(file).removesuffix("\n").split("\n")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    settings = settings_in(file.with_name("tokenizer_config.json"))
    special = [
        text if isinstance(text := settings.get(theirs), str) else usual
        for theirs, usual in SPECIAL.values()
    ]
    backend = tokenizers.Tokenizer(
        models.WordPiece(
            vocabulary,
            unk_token=special[list(SPECIAL).index("unknown")],
            max_input_chars_per_word=LONGEST_WORD,
        )
    )
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),  # None: where case is dropped
        lowercase=settings.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens([token for token in special if token in vocabulary])
    return backend


def with_frame(tokenizer: Tokenizer) -> str:
    """The library's file of a tokenizer that puts texts into their frame by itself."""
    special = tokenizer.special
    first, end = tokenizer.tokens([special.first, special.end])
    backend = tokenizers.Tokenizer.from_str(tokenizer.library_json)
    backend.post_processor = processors.TemplateProcessing(
        single=[first, "$A:0", end],
        pair=[first, "$A:0", end, "$B:1", f"{end}:1"],
        special_tokens=[(first, special.first), (end, special.end)],
    )
    return backend.to_str(pretty=True)
