"""The Transformer as a whole."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding import Replay
from regard.models import Transformer
from regard.nn import FeedForward, LayerNorm, Trace
from regard.nn.embedding import TokenEmbedding
from regard.nn.positions import RotaryPositions

SOURCE = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])
LENGTHS = torch.tensor([4, 2])
TARGET = torch.tensor([[1, 5, 6], [1, 8, 0]])


def model(**options) -> Transformer:
    small = {"d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 32}
    return Transformer(9, 9, **(small | options)).eval()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "post"},
        {"positions": "learned", "max_length": 12},
        {"positions": "rotary"},
        {"decoder_layers": 1},
        {"positions": "none"},
        {"activation": "gelu"},
        {"activation": "silu", "gated": True},
        {"norm_kind": "rms"},
        {"n_kv_heads": 2},
        {"n_kv_heads": 1, "d_head": 6, "positions": "rotary"},
        {"tie_embeddings": "output"},
        {"tie_embeddings": "all"},
        {"bias": False},
        {"qk_norm": True},
        {"qk_norm": True, "norm_kind": "rms", "bias": False, "positions": "rotary"},
        {"window": 2},
        {"positions": "rotary", "rotary_base": 500.0, "rotary_pairing": "interleaved"},
        {"norm_epsilon": 1e-3},
        {"scaled_embedding": False},
        {"feed_forward_dropout": 0.5},
        {"fast": False},
        {"n_heads": 1},
    ],
)
def test_every_option_trains_and_steps(options) -> None:
    transformer = model(**options)
    whole = transformer(SOURCE, TARGET, source_lengths=LENGTHS)
    assert whole.shape == (2, 3, 9)
    whole.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in transformer.parameters())
    state = transformer.start(SOURCE, LENGTHS)
    for position in range(2):
        logits, state = transformer.step(TARGET[:, position], state)
        torch.testing.assert_close(logits, whole[:, position], atol=1e-5, rtol=1e-4)


def test_every_part_gets_the_options() -> None:
    transformer = model(
        bias=False,
        norm_epsilon=0.125,
        qk_norm=True,
        window=3,
        positions="rotary",
        rotary_base=77.0,
        rotary_pairing="interleaved",
        scaled_embedding=False,
        feed_forward_dropout=0.25,
    )
    parts = list(transformer.modules())
    assert not [name for name, _ in transformer.named_parameters() if name.endswith("bias")]
    norms = [part for part in parts if isinstance(part, LayerNorm)]
    # Three residuals in a decoder layer and two in an encoder layer, 2 × (query, key) and one end.
    assert len(norms) == 2 * (3 + 2) + 2 * 3 * 2 + 2
    assert {norm.epsilon for norm in norms} == {0.125}
    rotary = [part for part in parts if isinstance(part, RotaryPositions)]
    assert {(part.base, part.pairing) for part in rotary} == {(77.0, "interleaved")}
    assert {part.dropout.rate for part in parts if isinstance(part, FeedForward)} == {0.25}
    assert {part.scale for part in parts if isinstance(part, TokenEmbedding)} == {1.0}
    assert [layer.self_attention.window for layer in transformer.decoder.layers] == [3, 3]
    assert [layer.self_attention.window for layer in transformer.encoder.layers] == [None, None]


def test_a_window_hides_what_lies_before_it() -> None:
    transformer = model(window=2, decoder_layers=1, positions="none")
    target = torch.tensor([[1, 5, 6, 7]])
    other = torch.tensor([[1, 8, 6, 7]])  # differs at position 1: positions 1 and 2 look at it
    source = SOURCE[:1]
    difference = (transformer(source, target) - transformer(source, other)).abs().amax(-1)[0]
    assert (difference > 1e-6).tolist() == [False, True, True, False]


def test_an_option_that_no_part_has_is_refused() -> None:
    with pytest.raises(TypeError, match="n_head"):
        model(n_head=2)


def test_ties_share_one_weight() -> None:
    separate, output, everything = (model(tie_embeddings=tie) for tie in ("none", "output", "all"))
    sizes = [sum(p.numel() for p in one.parameters()) for one in (separate, output, everything)]
    assert sizes == [sizes[0], sizes[0] - 9 * 16, sizes[0] - 2 * 9 * 16]
    assert everything.source_embedding.tokens.weight is everything.output.weight


def test_tying_all_needs_one_vocabulary() -> None:
    with pytest.raises(ValueError, match="9 source and 10 target"):
        Transformer(9, 10, tie_embeddings="all")


def test_an_empty_source_gives_finite_scores_and_gradients() -> None:
    transformer = model()
    empty = torch.zeros(1, 3, dtype=torch.long)
    logits = transformer(empty, TARGET[:1], source_lengths=torch.tensor([0]))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in transformer.parameters())


def test_a_trace_holds_every_head_of_every_layer_by_readable_path() -> None:
    trace = Trace()
    model()(SOURCE, TARGET, source_lengths=LENGTHS, trace=trace)
    weights = trace.attention()
    assert list(weights) == [
        "encoder.layers.0.self_attention",
        "encoder.layers.1.self_attention",
        "decoder.layers.0.self_attention",
        "decoder.layers.0.cross_attention",
        "decoder.layers.1.self_attention",
        "decoder.layers.1.cross_attention",
    ]
    assert weights["decoder.layers.1.cross_attention"].shape == (2, 4, 3, 4)
    for path, weight in weights.items():
        torch.testing.assert_close(weight.sum(-1), torch.ones(weight.shape[:-1]))
        mask = trace.masks()[path].broadcast_to(weight.shape)
        assert weight[~mask].abs().sum() == 0
    assert trace.shapes()["encoder.layers.0.feed_forward.hidden"] == (2, 4, 32)
    assert trace.shapes()["output.logits"] == (2, 3, 9)


def test_selecting_beams_of_one_source_does_not_copy_its_memory() -> None:
    transformer = model()
    state = transformer.start(SOURCE, LENGTHS).select(torch.tensor([0, 0, 1, 1]))
    _, state = transformer.step(torch.tensor([1, 1, 1, 1]), state)
    moved = state.select(torch.tensor([1, 0, 3, 3]))
    assert moved.caches[0].cross_attention is state.caches[0].cross_attention
    dropped = state.select(torch.tensor([2, 3]))
    assert dropped.memory_mask.shape[0] == 1
    assert dropped.caches[0].cross_attention.key.shape[0] == 1


@given(
    choices=st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_rows_may_be_chosen_in_any_way(choices: list[list[int]], seed: int) -> None:
    """As many for each source or not, in order or not: what follows is as if computed anew."""
    transformer = model()
    again = Replay(transformer)
    torch.manual_seed(seed)
    state, replayed = transformer.start(SOURCE, LENGTHS), again.start(SOURCE, LENGTHS)
    count = SOURCE.size(0)
    for choice in choices:
        tokens = torch.randint(1, 9, (count,))
        logits, state = transformer.step(tokens, state)
        expected, replayed = again.step(tokens, replayed)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
        rows = torch.tensor([number % count for number in choice])
        state, replayed, count = state.select(rows), replayed.select(rows), len(rows)


def test_without_bias_no_part_has_one() -> None:
    biases = [name for name, _ in model(bias=False).named_parameters() if name.endswith("bias")]
    assert biases == []
    assert len([name for name, _ in model().named_parameters() if name.endswith("bias")]) > 0


def test_lengths_and_not_ids_say_what_is_padding() -> None:
    transformer = model(padding=None)
    source = torch.tensor([[4, 0, 0, 2], [7, 2, 5, 5]])
    together = transformer(source, TARGET, source_lengths=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = transformer(source[row : row + 1, :length], TARGET[row : row + 1])
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-4)
    changed = source.clone()
    changed[0, 1] = 6
    assert not transformer(changed, TARGET)[0].allclose(transformer(source, TARGET)[0])


def test_it_says_what_it_can_do() -> None:
    assert Transformer.exports == ("ctranslate2", "onnx")
    assert Transformer.quantizable


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    groups=st.sampled_from([1, 2, 4]),
    positions=st.sampled_from(["sinusoidal", "learned", "rotary", "none"]),
)
def test_a_padded_batch_is_its_rows_for_any_lengths(lengths, groups, positions) -> None:
    transformer = model(n_kv_heads=groups, positions=positions)
    torch.manual_seed(sum(lengths))
    source = torch.randint(0, 9, (len(lengths), max(lengths) + 1))
    target = torch.randint(0, 9, (len(lengths), 3))
    together = transformer(source, target, source_lengths=torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone = transformer(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-4)
