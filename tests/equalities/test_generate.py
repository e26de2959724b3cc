"""Beam search against Hugging Face's `generate`, on Marian and Pegasus with the same weights."""

from typing import Any

import pytest
import torch

from benchmarks.hugging_face import as_hugging_face
from regard.data.batches import pad
from regard.decoding import Rules
from regard.decoding import beam as our_search
from regard.models import Transformer
from tests.decoding.table import by_beam, greedily

VOCAB, WIDTH, LAYERS, HEADS, INNER, LONGEST = 13, 16, 2, 4, 32, 12
PADDING, START, END = 0, 1, 2
NEVER = [PADDING, START]
SOURCES = [[4, 5, 6, 7, END], [8, 9, END], [12, 4, 10, 10, 3, END], [5, END], [6, 6, 6, END]]


@pytest.fixture(scope="module", params=["post", "pre"])
def models(request) -> tuple[Transformer, Any]:
    """The same weights in both: relu, one shared embedding, positions as ours are."""
    torch.manual_seed(1)
    ours = Transformer(
        VOCAB,
        VOCAB,
        d_model=WIDTH,
        n_layers=LAYERS,
        n_heads=HEADS,
        d_ff=INNER,
        norm=request.param,
        tie_embeddings="all",
    ).eval()
    with torch.no_grad():
        for parameter in ours.parameters():  # large enough that outputs differ in length
            parameter.add_(0.25 * torch.randn_like(parameter))
        ours.source_embedding.tokens.weight[PADDING] = 0
    return ours, as_hugging_face(ours, never=NEVER, longest=64)


def test_scores_are_equal(models) -> None:
    ours, theirs = models
    source, target = pad(SOURCES), pad([[START, 5, 6], [START, 4, 9], [START, 8, 8]] + [[1]] * 2)
    lengths = torch.tensor([len(row) for row in SOURCES])
    with torch.inference_mode():
        expected = theirs(
            input_ids=source, attention_mask=source != PADDING, decoder_input_ids=target
        ).logits
        logits = ours(source, target, source_lengths=lengths)
        torch.testing.assert_close(logits[..., END:], expected[..., END:], atol=1e-5, rtol=1e-5)


def generated(theirs: Any, **options) -> tuple[list[list[int]], list[float] | None]:
    source = pad(SOURCES)
    result = theirs.generate(
        input_ids=source,
        attention_mask=source != PADDING,
        max_new_tokens=LONGEST,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    rows = []
    for row in result.sequences[:, 1:].tolist():
        end = row.index(END) if END in row else len(row)
        rows.append(row[:end])
    scores = getattr(result, "sequences_scores", None)
    return rows, None if scores is None else scores.tolist()


def test_greedy_is_generate(models) -> None:
    ours, theirs = models
    outputs = greedily(ours, pad(SOURCES), max_new_tokens=LONGEST, never=NEVER)
    assert [one.tokens for one in outputs] == generated(theirs, num_beams=1)[0]


@pytest.mark.parametrize("beam", [2, 4, 5])
@pytest.mark.parametrize(("ngram", "alpha"), [(0, 0.0), (2, 0.0), (0, 0.6), (0, 1.0), (0, 2.0)])
def test_beam_search_is_generate(models, beam: int, ngram: int, alpha: float, monkeypatch) -> None:
    """The n_best and their scores; with their formula of the length penalty, where there is one."""
    ours, theirs = models
    if alpha:
        monkeypatch.setattr(our_search, "length_penalty", lambda length, alpha: length**alpha)
    outputs = by_beam(
        ours,
        pad(SOURCES),
        max_new_tokens=LONGEST,
        beam=beam,
        alpha=alpha,
        n_best=beam,
        never=NEVER,
        rules=Rules(END, no_repeat_ngram=ngram) if ngram else None,
    )
    rows, scores = generated(
        theirs,
        num_beams=beam,
        num_return_sequences=beam,
        length_penalty=alpha,
        early_stopping="never" if alpha else False,
        no_repeat_ngram_size=ngram,
    )
    assert [one.tokens for hypotheses in outputs for one in hypotheses] == rows
    assert [one.score for hypotheses in outputs for one in hypotheses] == pytest.approx(
        scores, abs=1e-4
    )
