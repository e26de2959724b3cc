"""The exported model writes what ours does, token by token."""

from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch
from torch.nn import functional

from regard.data.batches import collate, source_batch
from regard.data.tokenizer import PADDING, Tokenizer
from regard.models import AttentionSeq2Seq, Transformer
from regard.pretrained.ctranslate2 import export
from regard.system.errors import UserError
from tests.command import refused
from tests.decoding.table import by_beam

WORDS = [f"w{number}" for number in range(40)]
SENTENCES, LONGEST, UPDATES = 200, 40, 150


def taught(tokenizer: Tokenizer, **options) -> Transformer:
    """A model that has begun to learn to say words backwards: its outputs end, and all differ."""
    torch.manual_seed(3)
    vocab = len(tokenizer)
    model = Transformer(
        vocab, vocab, d_model=32, n_layers=2, n_heads=4, d_ff=48, max_length=64, **options
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    random = np.random.default_rng(1)
    for _ in range(UPDATES):
        rows = [ids(random) for _ in range(64)]
        batch = collate(rows, [row[::-1] for row in rows])
        lengths = batch.source_lengths
        logits = model(batch.source, batch.target_in, source_lengths=lengths)
        optimiser.zero_grad()
        functional.cross_entropy(
            logits.transpose(1, 2), batch.target_out, ignore_index=PADDING
        ).backward()
        optimiser.step()
    return model.eval()


def ids(random: np.random.Generator) -> list[int]:
    """A sentence of 1 to 8 words; the special tokens come before all words."""
    return random.integers(4, 4 + len(WORDS), random.integers(1, 9)).tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "pre", "tie_embeddings": "all"},
        {"norm": "post", "activation": "gelu"},
        {"positions": "learned", "decoder_layers": 1, "tie_embeddings": "output"},
        {"positions": "rotary", "bias": False},
    ],
    ids=["pre", "post-gelu", "learned-shallow", "rotary-no-biases"],
)
def test_beam_1_and_beam_5_write_the_same(tmp_path: Path, options) -> None:
    tokenizer = Tokenizer.train([" ".join(WORDS)], vocab_size=99)
    model = taught(tokenizer, **options)
    export(model, (tokenizer, tokenizer), tmp_path / "model")
    engine = ctranslate2.Translator(
        str(tmp_path / "model"), compute_type="float32", intra_threads=1
    )
    random = np.random.default_rng(0)
    rows = [ids(random) for _ in range(SENTENCES)]
    for beam in (1, 5):
        outputs = by_beam(
            model,
            source_batch(rows, tokenizer.special).tokens,
            max_new_tokens=LONGEST + 1,
            beam=beam,
            alpha=0.0,
            never=tokenizer.never_generated,
        )
        theirs = engine.translate_batch(
            [tokenizer.tokens(row) for row in rows],
            beam_size=beam,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=LONGEST,
            disable_unk=True,
            suppress_sequences=[["<pad>"], ["<s>"]],
            return_scores=True,
        )
        ours = [hypotheses[0] for hypotheses in outputs]
        assert sum(one.finished for one in ours) > 0.95 * SENTENCES
        assert len({tuple(one.tokens) for one in ours if one.tokens}) > 0.9 * SENTENCES
        ties = 0
        for one, other in zip(ours, theirs, strict=True):
            written = tokenizer.tokens(one.tokens)[:LONGEST]
            if written != other.hypotheses[0]:
                assert one.score == pytest.approx(other.scores[0], abs=1e-4)
                ties += 1  # two outputs that are as likely, up to rounding
        assert ties <= 1


def test_what_it_cannot_run_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([" ".join(WORDS)], vocab_size=99)
    model = AttentionSeq2Seq(len(tokenizer), len(tokenizer), kind="gru", d_model=8)
    with pytest.raises(UserError, match="this run's model is recurrent"):
        export(model, (tokenizer, tokenizer), tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n_kv_heads": 2}, "model.n_kv_heads"),
        ({"d_head": 4}, "model.d_head"),
        ({"norm_kind": "rms"}, "model.norm_kind=rms"),
        ({"gated": True}, "model.gated"),
        ({"activation": "silu"}, "model.activation=silu"),
        ({"positions": "none"}, "model.positions=none"),
    ],
)
def test_parts_that_it_does_not_have_are_refused(tmp_path: Path, options, named: str) -> None:
    tokenizer = Tokenizer.train([" ".join(WORDS)], vocab_size=99)
    model = Transformer(len(tokenizer), len(tokenizer), d_model=32, n_heads=4, d_ff=48, **options)
    with pytest.raises(UserError, match=f"does not support {named}, which this model has"):
        export(model, (tokenizer, tokenizer), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_run_is_exported_whole_or_not_at_all(call, tiny_run: Path, tmp_path: Path) -> None:
    assert call("export", tiny_run, "--to", "ctranslate2", "--out", "out/model").code == 0
    engine = ctranslate2.Translator(str(tmp_path / "out/model"), compute_type="float32")
    assert engine.translate_batch([["3", "1", "2"]])[0].hypotheses
    refused(call("export", tiny_run, "--to", "ctranslate2", "--out", "out/model"), "exists already")
    refused(call("export", tiny_run, "--to", "onyx", "--out", "x"), "Invalid value for '--to'")
