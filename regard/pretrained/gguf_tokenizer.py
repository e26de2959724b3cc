"""The tokenizer that a GGUF file carries, rebuilt so that it gives llama.cpp's ids."""

from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.pretrained.hf_tokenizer import make_tokenizer
from regard.system.errors import UserError

LETTERS_FIRST = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Llama 3 and Qwen split a text into words; they differ in how many digits stay together."""

BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2_WORDS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


WORDS: dict[str, list[pre_tokenizers.PreTokenizer]] = {
    "gpt-2": [GPT2_WORDS],
    "smollm": [_split(r"\p{N}"), GPT2_WORDS],
    "llama-bpe": [_split(LETTERS_FIRST % r"\p{N}{1,3}"), BYTES],
    "qwen2": [_split(LETTERS_FIRST % r"\p{N}"), BYTES],
}
"""How a text is split into the words that pairs are merged in (`tokenizer.ggml.pre`)."""

WHOLE_WORDS = ("llama-bpe",)
"""Where a word that is in the vocabulary is one token, whatever the merges say."""

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
"""The types of tokens that are told apart here (`tokenizer.ggml.token_type`)."""
SPACE = "▁"

Metadata = dict[str, Any]


def read_tokenizer(metadata: Metadata, *, where: str) -> Tokenizer:
    """The tokenizer of a file's metadata; where: the file, for messages."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind not in BUILDERS:
        raise UserError(
            f"{where}: a tokenizer of the kind {kind!r} cannot be imported; it may be "
            f"{', '.join(BUILDERS)}."
        )
    tokens = _listed(metadata, "tokens", where)
    if len(set(tokens)) < len(tokens):
        raise UserError(f"{where}: its tokenizer has the same token twice.")
    try:
        backend = BUILDERS[kind](metadata, tokens, where)
    except UserError:
        raise
    except Exception as error:  # the library raises plain Exception for what does not fit
        raise UserError(f"{where}: its tokenizer cannot be rebuilt: {error}.") from None
    types = metadata.get("tokenizer.ggml.token_type") or [NORMAL] * len(tokens)
    backend.add_tokens(_added(tokens, types, USER_DEFINED))
    backend.add_special_tokens(_added(tokens, types, CONTROL))
    return make_tokenizer(backend, _special(metadata, kind, where), where=where)


def _listed(metadata: Metadata, name: str, where: str) -> list[Any]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not value:
        raise UserError(f"{where}: tokenizer.ggml.{name} is missing.")
    return value


def _added(tokens: list[str], types: list[int], kind: int) -> list[AddedToken]:
    special = kind == CONTROL
    return [
        AddedToken(token, special=special, normalized=False)
        for token, its_kind in zip(tokens, types, strict=True)
        if its_kind == kind
    ]


def _special(metadata: Metadata, kind: str, where: str) -> SpecialIds:
    """The special ids; whether a text begins with `<s>` is as the file says, or its kind."""
    ids = {
        name: metadata.get(f"tokenizer.ggml.{theirs}_token_id")
        for name, theirs in (
            ("end", "eos"),
            ("start", "bos"),
            ("padding", "padding"),
            ("unknown", "unknown"),
        )
    }
    end = ids.pop("end")
    if end is None:
        raise UserError(f"{where}: tokenizer.ggml.eos_token_id is missing: nothing ends a text.")
    if kind == "gpt2":
        ids.pop("unknown")  # every text has bytes
    others = {name: token for name, token in ids.items() if token != end}
    by_kind = kind == "llama" or metadata.get("tokenizer.ggml.pre") == "llama-bpe"
    begins = metadata.get("tokenizer.ggml.add_bos_token", by_kind)
    start = metadata.get("tokenizer.ggml.bos_token_id")
    return SpecialIds(end=end, opening=(start,) if begins and start is not None else (), **others)


def _byte_pairs(metadata: Metadata, tokens: list[str], where: str) -> tokenizers.Tokenizer:
    """Byte-level byte-pair encoding (Radford et al. 2019, §2.2)."""
    words = metadata.get("tokenizer.ggml.pre", "default")
    if words not in WORDS:
        raise UserError(
            f"{where}: its tokenizer splits words in the way {words!r}, which is not supported; it "
            f"may be {', '.join(WORDS)}."
        )
    merges = [tuple(merge.split(" ", 1)) for merge in _listed(metadata, "merges", where)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    whole = words in WHOLE_WORDS
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges, ignore_merges=whole))
    backend.pre_tokenizer = pre_tokenizers.Sequence(WORDS[words])
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentence_pieces(metadata: Metadata, tokens: list[str], where: str) -> tokenizers.Tokenizer:
    """SentencePiece's byte-pair encoding (Kudo & Richardson 2018), as Llama 1 and 2 have it.

    Pieces are merged in the order of their scores, so every way to make a piece of two others is a
    merge. Characters that are no piece become bytes.
    """
    scores = _listed(metadata, "scores", where)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [
        (-score, vocabulary[token[:cut]], vocabulary[token[cut:]])
        for token, score in zip(tokens, scores, strict=True)
        for cut in range(1, len(token))
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    ]
    pairs = [(tokens[left], tokens[right]) for _, left, right in sorted(merges)]
    unknown = metadata.get("tokenizer.ggml.unknown_token_id", 0)
    backend = tokenizers.Tokenizer(
        models.BPE(vocabulary, pairs, unk_token=tokens[unknown], fuse_unk=True, byte_fallback=True)
    )
    prefixed = metadata.get("tokenizer.ggml.add_space_prefix", True)
    steps = [normalizers.Prepend(SPACE)] if prefixed else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    backend.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(" ", 1, 0)] if prefixed else [])
    )
    return backend


BUILDERS = {"gpt2": _byte_pairs, "llama": _sentence_pieces}
"""What rebuilds each kind of tokenizer (`tokenizer.ggml.model`)."""
