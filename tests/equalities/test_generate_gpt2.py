"""Searches after prompts of different lengths, in one batch, against GPT-2's `generate`."""

from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from regard.config import Decode
from regard.decoding import beam as our_search
from regard.decoding import collect, make_rules, search, stepper_for
from regard.models import GPT
from regard.tasks.generating import after_prompt
from tests.decoding.table import after_end

VOCAB, WIDTH, LAYERS, HEADS, LONGEST, END = 15, 16, 2, 2, 14, 2
PROMPTS = [[4, 5, 6, 4, 5], [8], [3, 9, 9, 10], [], [7, 7, 7]]


@pytest.fixture(scope="module")
def models() -> tuple[GPT, Any]:
    """The same random weights in both, large enough that outputs differ."""
    torch.manual_seed(5)
    sizes = {"d_model": WIDTH, "n_heads": HEADS, "d_ff": 4 * WIDTH, "max_length": 64}
    ours = GPT(VOCAB, n_layers=LAYERS, dropout=0.0, **sizes).eval()
    theirs: Any = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCAB, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=64,
            bos_token_id=END, eos_token_id=END, pad_token_id=END,
        )
    ).eval()  # fmt: skip
    body = theirs.transformer
    pairs = [
        (ours.embedding.tokens.weight, body.wte.weight),
        (ours.embedding.positions.weight, body.wpe.weight),
        *_affine(ours.decoder.final_norm, body.ln_f),
    ]
    for block, their_block in zip(ours.decoder.layers, body.h, strict=True):
        pairs += [
            *_affine(block.self_attention_residual.norm, their_block.ln_1),
            *_affine(block.feed_forward_residual.norm, their_block.ln_2),
            *_affine(block.self_attention.projection, their_block.attn.c_attn, turned=True),
            *_affine(block.self_attention.output, their_block.attn.c_proj, turned=True),
            *_affine(block.feed_forward.inner, their_block.mlp.c_fc, turned=True),
            *_affine(block.feed_forward.outer, their_block.mlp.c_proj, turned=True),
        ]
    with torch.no_grad():
        for one, other in pairs:
            one.add_(0.3 * torch.randn_like(one))
            other.copy_(one)
    return ours, theirs


def _affine(ours: Any, theirs: Any, *, turned: bool = False) -> list[tuple[Any, Any]]:
    weight = theirs.weight.detach()
    return [(ours.weight, weight.T if turned else weight), (ours.bias, theirs.bias)]


def generated(theirs: Any, **options) -> list[list[tuple[list[int], float]]]:
    """Each prompt alone: tokens and score of every sequence that is returned."""
    results = []
    for prompt in PROMPTS:
        ids = torch.tensor([[END, *prompt]])
        result = theirs.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=LONGEST,
            do_sample=False, return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip
        rows = [row[ids.size(1) :] for row in result.sequences.tolist()]
        rows = [row[: row.index(END)] if END in row else row for row in rows]
        scores = getattr(result, "sequences_scores", None)
        values = [0.0] * len(rows) if scores is None else scores.tolist()
        results.append(list(zip(rows, values, strict=True)))
    return results


@torch.inference_mode()
def searched(model: GPT, **keys) -> list[list[tuple[list[int], float]]]:
    decode = Decode(max_new_tokens=LONGEST, **keys)
    stepper = stepper_for(model, decode)
    state, first = after_prompt(stepper, torch.device("cpu"), begun=after_end, padding=0)(PROMPTS)
    # transformers counts the token before the prompt as well
    rules = make_rules(decode, end=END, prompts=[[END, *prompt] for prompt in PROMPTS])
    hypotheses = collect(
        search(stepper, state, first, decode, end=END, rules=rules), n_best=decode.n_best
    )
    return [[(one.tokens, one.score) for one in of_prompt] for of_prompt in hypotheses]


def tokens(results: list[list[tuple[list[int], float]]]) -> list[list[list[int]]]:
    return [[row for row, _ in of_prompt] for of_prompt in results]


PENALTIES = [
    ({}, {}),
    ({"repetition_penalty": 1.7}, {"repetition_penalty": 1.7}),
    ({"no_repeat_ngram": 2}, {"no_repeat_ngram_size": 2}),
    (
        {"repetition_penalty": 0.8, "no_repeat_ngram": 3},
        {"repetition_penalty": 0.8, "no_repeat_ngram_size": 3},
    ),
]


@pytest.mark.parametrize("speculate", [0, 4])
@pytest.mark.parametrize(("ours", "theirs"), PENALTIES)
def test_greedy_is_generate(models, ours, theirs, speculate: int) -> None:
    result = searched(models[0], speculate=speculate, **ours)
    assert tokens(result) == tokens(generated(models[1], **theirs))


@pytest.mark.parametrize("beam", [2, 5])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), PENALTIES)
def test_beam_search_is_generate(models, beam, alpha, early, ours, theirs, monkeypatch) -> None:
    """With their formula of the length penalty."""
    monkeypatch.setattr(our_search, "length_penalty", lambda length, alpha: length**alpha)
    result = searched(
        models[0], strategy="beam", beam=beam, n_best=beam, length_penalty=alpha,
        early_stopping=early, **ours,
    )  # fmt: skip
    expected = generated(
        models[1], num_beams=beam, num_return_sequences=beam, length_penalty=alpha,
        early_stopping=early or ("never" if alpha else False), **theirs,
    )  # fmt: skip
    assert tokens(result) == tokens(expected)
    for some, others in zip(result, expected, strict=True):
        assert [score for _, score in some] == pytest.approx([s for _, s in others], abs=1e-4)
