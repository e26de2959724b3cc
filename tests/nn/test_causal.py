"""is_causal, windows, grouped queries, and rows of different lengths in one cache."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn import (
    Context,
    KVCache,
    SelfAttention,
    attend,
    attend_fast,
    causal_mask,
    padding_mask,
)
from regard.nn.masks import attention_mask, last_allowed
from regard.verify.decoder_only import OPTIONS, batch_against_singles, random_decoder


@given(
    T=st.integers(1, 6),
    past=st.integers(0, 6),
    groups=st.sampled_from([1, 2, 4]),
    lengths=st.lists(st.integers(0, 12), min_size=2, max_size=2),
    masked=st.booleans(),
)
def test_is_causal_is_the_causal_mask_by_both_paths(T, past, groups, lengths, masked) -> None:
    torch.manual_seed(T * 100 + past)
    query = torch.randn(2, 4, T, 8)
    key, value = torch.randn(2, 2, groups, past + T, 8)
    mask = padding_mask(torch.tensor(lengths), past + T) if masked else None
    causal = causal_mask(T, past) if mask is None else mask & causal_mask(T, past)
    repeated = (x.repeat_interleave(4 // groups, dim=1) for x in (key, value))
    expected, _ = attend(query, *repeated, causal)
    for output in (
        attend(query, key, value, mask, is_causal=True)[0],
        attend_fast(query, key, value, mask, is_causal=True),
    ):
        torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)


def test_causal_attention_makes_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments, **options):
        raise AssertionError("a mask of T × S was made")

    attention = SelfAttention(8, 2)
    monkeypatch.setattr("regard.nn.masks.causal_mask", refuse)
    attention(torch.randn(1, 5, 8), is_causal=True)
    cache = KVCache()
    attention(torch.randn(1, 5, 8), is_causal=True, cache=cache)
    attention(torch.randn(1, 1, 8), is_causal=True, cache=cache)  # a single query needs none
    with pytest.raises(AssertionError, match="was made"):
        attention(torch.randn(1, 2, 8), is_causal=True, cache=cache)


@given(parts=st.lists(st.integers(1, 4), min_size=1, max_size=6), window=st.integers(1, 5))
def test_a_window_with_a_cache_is_the_window_without(parts: list[int], window: int) -> None:
    torch.manual_seed(1)
    attention, length = SelfAttention(8, 2, window=window, n_kv_heads=1).eval(), sum(parts)
    x = torch.randn(2, length, 8)
    whole = attention(x, is_causal=True)
    cache = KVCache()
    stepped = [attention(new, is_causal=True, cache=cache) for new in x.split(parts, dim=1)]
    torch.testing.assert_close(torch.cat(stepped, dim=1), whole, atol=1e-5, rtol=1e-5)


def test_a_window_counts_tokens_and_not_padding() -> None:
    real = torch.tensor([[True, True, False, False, True, True]])
    assert last_allowed(real, 3).tolist() == [[False, True, False, False, True, True]]
    mask = attention_mask(None, queries=4, keys=4, is_causal=True, window=2)
    assert mask.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize("name", OPTIONS)
def test_prompts_of_different_lengths_in_one_batch_equal_each_alone(name: str) -> None:
    assert batch_against_singles(**OPTIONS[name]) <= 1e-5


@given(
    prompts=st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=7), min_size=1, max_size=4),
    positions=st.sampled_from(["learned", "sinusoidal", "rotary", "none"]),
    window=st.sampled_from([None, 1, 4]),
)
def test_any_prompts_decode_together_as_alone(prompts, positions, window) -> None:
    assert batch_against_singles(prompts, positions=positions, window=window) <= 1e-5


@torch.inference_mode()
def test_rows_of_a_context_can_be_selected_repeated_and_reordered() -> None:
    model, rows = random_decoder(positions="rotary"), torch.tensor([1, 1, 0])
    prompt, lengths = torch.tensor([[4, 5, 6], [7, 0, 0]]), torch.tensor([3, 1])
    state = model.start(prompt, lengths).select(rows)
    assert isinstance(state, Context)
    assert state.lengths.tolist() == [1, 1, 3]
    logits, state = model.step(torch.tensor([8, 9, 10]), state)
    singles = [[7, 8], [7, 9], [4, 5, 6, 10]]
    for row, tokens in enumerate(singles):
        expected = model(torch.tensor([tokens]))[0, -1]
        torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)
    assert state.lengths.tolist() == [2, 2, 4]


@pytest.mark.parametrize("name", OPTIONS)
@torch.inference_mode()
def test_a_state_that_was_cut_back_goes_on_as_if_it_had_never_been_further(name: str) -> None:
    """Several tokens at once, different numbers of them per row, some of them taken back."""
    model = random_decoder(**OPTIONS[name])
    rows: list[list[int]] = [[4, 0, 5], [8], []]
    state = model.start(torch.tensor([[4, 0, 5], [8, 1, 1], [1, 1, 1]]), torch.tensor([3, 1, 0]))
    generator = torch.Generator().manual_seed(5)
    for _ in range(6):
        counts = torch.randint(0, 4, (3,), generator=generator)
        tokens = torch.randint(0, 12, (3, max(1, int(counts.max()))), generator=generator)
        hidden, state = model.read(tokens, state, counts)
        for row, count in enumerate(counts.tolist()):
            rows[row] += tokens[row, :count].tolist()
            if count:
                alone = model(torch.tensor([rows[row]]))[0, -count:]
                torch.testing.assert_close(
                    model.output(hidden[row, :count]), alone, atol=1e-5, rtol=1e-5
                )
        back = torch.tensor([min(2, len(row)) for row in rows])
        state = state.back(back)
        rows = [row[: len(row) - min(2, len(row))] for row in rows]
        assert state.lengths.tolist() == [len(row) for row in rows]


def test_a_mask_is_made_only_where_a_slot_holds_no_token() -> None:
    prompt, tokens = torch.ones(2, 3, dtype=torch.long), torch.ones(2, 2, dtype=torch.long)
    whole = Context.of_prompt([], prompt)
    assert whole.mask is None
    assert Context.of_prompt([], prompt, torch.tensor([3, 3])).mask is None
    assert whole.grown(tokens).mask is None
    assert whole.back(torch.tensor([1, 1])).mask is None
    assert whole.select(torch.tensor([1, 0, 1])).mask is None
    ragged = Context.of_prompt([], prompt, torch.tensor([3, 1]))
    for padded in (
        ragged,
        ragged.grown(tokens),
        ragged.select(torch.tensor([0, 1])),
        whole.grown(tokens, torch.tensor([2, 1])),
        whole.back(torch.tensor([0, 1])),
    ):
        assert padded.mask is not None
        assert padded.mask.equal(padded.real[:, None, None])
        assert not padded.mask.all()
    assert ragged.back(torch.tensor([2, 0])).mask is None
