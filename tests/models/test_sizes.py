"""Named sizes: as many weights as published; a key beside the size wins."""

import pytest
import torch

from regard import config
from regard.config.sizes import SIZES
from regard.models.build import language_model, text_encoder
from regard.system.errors import UserError

LM = ("task=lm", "train.metric=loss", "tokenizer.kind=chars")

PUBLISHED = {
    "gpt2": (50_257, 1024, 124_439_808),
    "gpt2-medium": (50_257, 1024, 354_823_168),
    "gpt2-large": (50_257, 1024, 774_030_080),
    "gpt2-xl": (50_257, 1024, 1_557_611_200),
    "smollm2-135m": (49_152, 8192, 134_515_008),
}
"""Vocabulary, context, and weights of the checkpoints on the Hugging Face hub."""


PUBLISHED_BERT = {
    "bert-tiny": 4_385_920,
    "bert-mini": 11_170_560,
    "bert-small": 28_763_648,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "minilm-l6": 22_713_216,
}
"""Weights of the uncased encoders, with their 30,522 word pieces, 512 positions and pooler."""


def load(*settings: str) -> config.Config:
    return config.load("sort", [*LM, *settings])


@pytest.mark.parametrize("size", PUBLISHED)
def test_a_named_size_has_the_published_number_of_weights(size: str) -> None:
    vocab, context, weights = PUBLISHED[size]
    settings = load(f"model.size={size}", f"data.max_length={context}")
    with torch.device("meta"):
        model = language_model(settings, vocab=vocab, padding=None)
    assert sum(weight.numel() for weight in model.parameters()) == weights


@pytest.mark.parametrize("size", PUBLISHED_BERT)
def test_a_named_bert_has_the_published_number_of_weights(size: str) -> None:
    model = config.Model(size=size)
    settings = config.Config.model_construct(model=model, data=config.Data())
    with torch.device("meta"):
        encoder = text_encoder(settings, vocab=30_522, padding=0)
    assert sum(weight.numel() for weight in encoder.parameters()) == PUBLISHED_BERT[size]


@pytest.mark.parametrize("settings", [("model.n_layers=3", "model.size=gpt2")] * 2)
def test_a_key_beside_a_size_wins_in_any_order(settings: tuple[str, str]) -> None:
    for ordered in (settings, settings[::-1]):
        model = load(*ordered).model
        assert (model.kind, model.n_layers, model.d_model) == ("gpt", 3, 768)


def test_a_size_takes_the_place_of_the_keys_of_a_recipe() -> None:
    assert config.load("sort").model.d_model == 64
    assert load("model.size=gpt-nano").model.d_model == 48


def test_a_key_in_a_file_beside_its_size_wins(tmp_path) -> None:
    path = tmp_path / "lm.yaml"
    path.write_text(
        "task: lm\ndata: {train: a, valid: a, test: a}\ntokenizer: {kind: chars}\n"
        "model: {size: smollm2-135m, n_layers: 2}\ntrain: {steps: 1, batch_size: 1}\n"
    )
    model = config.load(str(path)).model
    assert (model.n_layers, model.n_kv_heads, model.positions) == (2, 3, "rotary")
    assert config.load(str(path), ["model.size=gpt2"]).model.n_layers == 12


def test_a_gpt_has_the_parts_of_gpt2_where_no_key_is_set() -> None:
    assert SIZES["gpt2"].items() <= load("model.size=gpt2").model.model_dump().items()
    bare = config.Model(kind="gpt")
    assert (bare.positions, bare.activation, bare.scaled_embedding) == (
        "learned",
        "gelu-tanh",
        False,
    )


def test_an_unknown_size_and_one_for_another_kind_are_refused() -> None:
    with pytest.raises(UserError, match=r"model.size='gpt5' is not one of"):
        load("model.size=gpt5")
    with pytest.raises(
        UserError, match=r"it is for model.kind=gpt or bert, not for model.kind=lstm"
    ):
        load("model.kind=lstm", "model.size=gpt2")
