"""Keys of a model that contradict each other are refused in one sentence, before training."""

import pytest

from regard import config
from regard.system.errors import UserError

REFUSED = {
    ("model.n_heads=5",): "model: n_heads=5 does not divide d_model=64; it may be 1, 2, 4, 8, 16, "
    "32 or 64.",
    ("model.n_kv_heads=3",): "model: n_kv_heads=3 does not divide n_heads=4; it may be 1, 2 or 4.",
    ("model.n_kv_heads=8",): "model: n_kv_heads=8 does not divide n_heads=4; it may be 1, 2 or 4.",
    ("model.n_heads=6", "model.d_head=8", "model.n_kv_heads=4"): "model: n_kv_heads=4 does not "
    "divide n_heads=6; it may be 1, 2, 3 or 6.",
    ("model.positions=rotary", "model.d_head=5"): "model: positions=rotary rotates pairs of "
    "dimensions, and d_head=5 is odd.",
    ("model.positions=rotary", "model.d_model=20"): "model: positions=rotary rotates pairs of "
    "dimensions, and d_model=20 / n_heads=4 = 5 is odd.",
    ("model.n_kv_heads=0",): "model.n_kv_heads",
    ("model.d_head=0",): "model.d_head",
    ("model.gated=maybe",): "model.gated",
    ("model.norm_kind=batch",): "model.norm_kind",
    ("model.activation=tanh",): "model.activation",
    ("model.positions=relative",): "model.positions",
    ("model.dropout=1",): "model.dropout",
}


@pytest.mark.parametrize(("settings", "sentence"), REFUSED.items(), ids=", ".join)
def test_a_wrong_model_key_is_refused_in_one_sentence(settings, sentence: str) -> None:
    with pytest.raises(UserError) as refusal:
        config.load("sort", settings)
    message = str(refusal.value)
    assert sentence in message
    assert "\n" not in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    "settings",
    [
        ("model.n_heads=6", "model.d_head=8", "model.n_kv_heads=3"),
        ("model.n_kv_heads=1", "model.gated=true", "model.norm_kind=rms", "model.bias=false"),
        ("model.positions=rotary", "model.d_model=20", "model.d_head=6"),
    ],
    ids=", ".join,
)
def test_keys_that_fit_together_are_accepted(settings) -> None:
    config.load("sort", settings)


def test_keys_of_a_transformer_need_not_fit_a_recurrent_model() -> None:
    """As in a recipe whose kind of model is changed."""
    config.Model(kind="gru", n_heads=5, n_kv_heads=3)
