"""Import of g2p-en: a trained GRU encoder-decoder from spelling to phonemes.

Its weights are plain arrays (`.npz`); its code is not needed. A letter's embedding goes into a GRU;
the last state is the decoder's first, as it is; logits have a bias.
"""

import math
from pathlib import Path

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard import config as configuration
from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.models.build import encoder_decoder
from regard.pretrained.imported import Imported, shapes_of
from regard.pretrained.names import Place, Table, to_ours
from regard.system.errors import UserError
from regard.tasks.translate import Translate

VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
CONSONANTS = (
    *("B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH"),
    *("T", "TH", "V", "W", "Y", "Z", "ZH"),
)
STRESSED = [f"{vowel}{stress}" for vowel in VOWELS for stress in "012"]
PHONEMES = sorted([*STRESSED, *CONSONANTS, "UW"])
"""ARPAbet with stress, and one UW without it."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"

TABLE: Table = {
    "source_embedding.weight": Place(("enc_emb",)),
    "encoder.layers.weight_ih_l0": Place(("enc_w_ih",)),
    "encoder.layers.weight_hh_l0": Place(("enc_w_hh",)),
    "encoder.layers.bias_ih_l0": Place(("enc_b_ih",)),
    "encoder.layers.bias_hh_l0": Place(("enc_b_hh",)),
    "target_embedding.weight": Place(("dec_emb",)),
    "decoder.layers.weight_ih_l0": Place(("dec_w_ih",)),
    "decoder.layers.weight_hh_l0": Place(("dec_w_hh",)),
    "decoder.layers.bias_ih_l0": Place(("dec_b_ih",)),
    "decoder.layers.bias_hh_l0": Place(("dec_b_hh",)),
    "output.weight": Place(("fc_w",)),
    "output.bias": Place(("fc_b",)),
}

CONFIG = {
    "task": "translate",
    "data": {"max_length": 64, "scores": "pronunciation"},
    "tokenizer": {"kind": "chars", "target_kind": "words", "joint": False, "lowercase": True},
    "model": {
        "kind": "gru",
        "d_model": 256,
        "n_layers": 1,
        "attention": "none",
        "bidirectional": False,
        "bridge": False,
        "output_bias": True,
        "tie_embeddings": "none",
        "dropout": 0.0,
    },
    "decode": {"max_new_tokens": 20},  # as the package does
}


def read_g2p(path: Path) -> Imported:
    """The model in g2p-en's `checkpoint20.npz`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            theirs = {name: torch.from_numpy(file[name]).float() for name in file.files}
    except Exception as error:  # a damaged archive has many ways to fail
        raise UserError(f"{path} is not a whole .npz file ({error}): install it again.") from None
    config = configuration.validate(CONFIG, where=str(path))
    source, target = _letters(), _phonemes()
    with torch.device("meta"):  # shapes alone
        model = encoder_decoder(
            config, vocabs=(len(source), len(target)), max_length=64, padding=source.padding
        )
    weights = to_ours(theirs, shapes_of(model), TABLE, where=str(path))
    for name in ("source_embedding.weight", "target_embedding.weight"):
        weights[name] /= math.sqrt(weights[name].size(1))  # ours is multiplied by √256: exact
    files = dict(zip(Translate.FILES, (source.json, target.json), strict=True))
    return Imported(config, files, weights)


def _letters() -> Tokenizer:
    """Letters, without case and accents."""
    backend = _whole(["<pad>", "<unk>", "</s>", *LETTERS])
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return Tokenizer(backend.to_str(), SpecialIds(padding=0, unknown=1, end=2))


def _phonemes() -> Tokenizer:
    """Phonemes with spaces between them."""
    backend = _whole(["<pad>", "<unk>", "<s>", "</s>", *PHONEMES])
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(backend.to_str(), SpecialIds(padding=0, unknown=1, start=2, end=3))


def _whole(tokens: list[str]) -> tokenizers.Tokenizer:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
