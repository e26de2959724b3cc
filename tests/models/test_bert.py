"""Bert: what padding, batches, segments and a trace do to it; its equalities stand elsewhere."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import padded
from regard.models import Bert
from regard.nn import Trace

VOCAB, LONGEST = 12, 10
ROWS = st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=8), min_size=1, max_size=4)
PARTS = {
    "BERT's": {},
    "the paper's": {
        "norm": "pre",
        "positions": "sinusoidal",
        "segments": 0,
        "embedding_norm": False,
        "pooler": False,
        "own_init": True,
    },
}


def bert(**parts: object) -> Bert:
    torch.manual_seed(3)
    sizes = {"d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 16, "max_length": LONGEST}
    model = Bert(VOCAB, **sizes | parts).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


MODELS = {name: bert(**parts) for name, parts in PARTS.items()}


@pytest.mark.parametrize("name", PARTS)
@given(rows=ROWS)
def test_a_batch_is_its_rows_one_by_one(name: str, rows: list[list[int]]) -> None:
    """Id 0 is a token like any other here: what is real is said by lengths alone."""
    model = MODELS[name]
    together = model(*padded(rows))
    for number, row in enumerate(rows):
        alone = model(torch.tensor([row]))
        torch.testing.assert_close(together.hidden[number, : len(row)], alone.hidden[0])
        torch.testing.assert_close(together.summary[number], alone.summary[0])


@pytest.mark.parametrize("name", PARTS)
@given(rows=ROWS, fill=st.integers(0, VOCAB - 1))
def test_what_stands_in_padding_changes_nothing(name, rows, fill) -> None:
    model, batch = MODELS[name], padded(rows)
    real = torch.arange(batch.tokens.size(1)) < batch.lengths[:, None]
    wide = torch.full((len(rows), LONGEST), fill)
    wide[:, : batch.tokens.size(1)] = batch.tokens.where(real, torch.tensor(fill))
    expected, changed = model(*batch), model(wide, batch.lengths)
    cut = changed.hidden[:, : batch.tokens.size(1)]
    torch.testing.assert_close(cut[real], expected.hidden[real])
    torch.testing.assert_close(changed.summary, expected.summary)


@pytest.mark.parametrize("name", PARTS)
def test_a_trace_records_every_part_and_changes_nothing(name: str) -> None:
    model, trace = MODELS[name], Trace()
    batch = padded([[4, 5, 6], [7]])
    traced, plain = model(*batch, trace=trace), model(*batch)
    torch.testing.assert_close(traced.hidden[0], plain.hidden[0])
    torch.testing.assert_close(traced.summary, plain.summary)
    weights = trace["encoder.layers.1.self_attention"]["weights"]  # B H L L
    assert weights.shape == (2, 2, 3, 3)
    torch.testing.assert_close(weights[1, :, 0], torch.tensor([[1.0, 0.0, 0.0]] * 2))
    assert trace["embedding"]["output"].shape == (2, 3, 8)
    if model.pooler is not None:
        assert trace["pooler"]["output"].equal(traced.summary)


def test_without_segments_every_token_belongs_to_the_first_text() -> None:
    model, tokens = bert(), torch.tensor([[4, 5, 6]])
    first, second = (torch.full_like(tokens, number) for number in (0, 1))
    torch.testing.assert_close(model(tokens, segments=first).hidden, model(tokens).hidden)
    assert not torch.allclose(model(tokens, segments=second).hidden, model(tokens).hidden)


def test_the_summary_is_pooled_or_else_the_first_hidden_state() -> None:
    tokens = torch.tensor([[4, 5, 6]])
    plain = bert(pooler=False)(tokens)
    assert plain.summary.equal(plain.hidden[:, 0])
    model = bert()
    hidden, summary = model(tokens)
    expected = torch.tanh(hidden[:, 0] @ model.pooler.linear.weight.T + model.pooler.linear.bias)
    torch.testing.assert_close(summary, expected)


def test_every_weight_is_trained_but_the_row_of_padding() -> None:
    model = bert(padding=0).train()
    before = model.embedding.tokens.weight[0].clone()
    hidden, summary = model(
        torch.tensor([[4, 5, 6], [7, 8, 0]]),
        torch.tensor([3, 2]),
        segments=torch.tensor([[0, 0, 1], [0, 1, 0]]),
    )
    (hidden.square().sum() + summary.sum()).backward()
    for name, weight in model.named_parameters():
        assert 0 < weight.grad.abs().sum() < torch.inf, name
    assert model.embedding.tokens.weight.grad[0].abs().sum() == 0
    assert model.embedding.tokens.weight[0].equal(before)


def test_weights_begin_as_berts_do() -> None:
    model = Bert(500, d_model=64, n_layers=1, n_heads=2, d_ff=128, padding=0)
    assert model.embedding.tokens.weight[1:].std().item() == pytest.approx(0.02, rel=0.05)
    assert model.embedding.tokens.weight[0].abs().sum() == 0
    assert model.pooler.linear.bias.abs().sum() == 0


def test_a_row_beyond_the_learned_positions_is_refused() -> None:
    with pytest.raises(ValueError, match=f"position {LONGEST + 1} is needed, and this model"):
        bert()(torch.zeros(1, LONGEST + 1, dtype=torch.long))
