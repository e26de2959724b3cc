"""The exported model writes what ours does, token by token."""

from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch

from regard.data.batches import source_batch
from regard.data.tokenizer import END, NEVER_WRITTEN, START, Tokenizer
from regard.decoding import beam_search
from regard.errors import UserError
from regard.models import AttentionSeq2Seq, Transformer
from regard.pretrained.ctranslate2 import export
from tests.command import refused

WORDS = [f"w{number}" for number in range(40)]
SENTENCES, LONGEST = 200, 40


def random_model(vocab: int, **options) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(
        vocab, vocab, d_model=32, n_layers=2, n_heads=4, d_ff=48, max_length=64, **options
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
        last = model.decoder.final_norm or model.decoder.layers[-1].feed_forward_residual.norm
        # What every output vector has in common makes `</s>` likelier, so that outputs end.
        model.output.weight[END] += 3 * last.bias / last.bias.square().sum()
    return model.eval()


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "pre", "tie_embeddings": "all"},
        {"norm": "post", "activation": "gelu"},
        {"positions": "learned", "decoder_layers": 1, "tie_embeddings": "output"},
    ],
    ids=["pre", "post-gelu", "learned-shallow"],
)
def test_beam_1_and_beam_5_write_the_same(tmp_path: Path, options) -> None:
    tokenizer = Tokenizer.train([" ".join(WORDS)], vocab_size=99)
    model = random_model(len(tokenizer), **options)
    export(model, (tokenizer, tokenizer), tmp_path / "model")
    engine = ctranslate2.Translator(
        str(tmp_path / "model"), compute_type="float32", intra_threads=1
    )
    random = np.random.default_rng(0)
    texts = [random.choice(WORDS, random.integers(1, 9)).tolist() for _ in range(SENTENCES)]
    source = source_batch(tokenizer.encode([" ".join(text) for text in texts]))
    for beam in (1, 5):
        found = beam_search(
            model,
            source,
            start=START,
            end=END,
            max_new_tokens=LONGEST + 1,
            beam=beam,
            alpha=0.0,
            never=NEVER_WRITTEN,
        )
        theirs = engine.translate_batch(
            texts,
            beam_size=beam,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=LONGEST,
            disable_unk=True,
            suppress_sequences=[["<pad>"], ["<s>"]],
        )
        ours = [tokenizer.tokens(hypotheses[0].tokens)[:LONGEST] for hypotheses in found]
        different = [
            number
            for number in range(SENTENCES)
            if ours[number] != theirs[number].hypotheses[0] and found[number][0].finished
        ]
        finished = sum(hypotheses[0].finished for hypotheses in found)
        assert finished > 20
        assert len(different) <= 0.01 * finished  # ties, up to rounding


def test_what_it_cannot_run_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([" ".join(WORDS)], vocab_size=99)
    vocab = len(tokenizer)
    for model, message in (
        (AttentionSeq2Seq(vocab, vocab, kind="gru", d_model=8), "this run's model is recurrent"),
        (random_model(vocab, positions="rotary"), "this run has rotary ones"),
    ):
        with pytest.raises(UserError, match=message):
            export(model, (tokenizer, tokenizer), tmp_path / "model")


def test_a_run_is_exported_whole_or_not_at_all(call, tiny_run: Path, tmp_path: Path) -> None:
    assert call("export", tiny_run, "--to", "ctranslate2", "--out", "out/model").code == 0
    engine = ctranslate2.Translator(str(tmp_path / "out/model"), compute_type="float32")
    assert engine.translate_batch([["3", "1", "2"]])[0].hypotheses
    refused(call("export", tiny_run, "--to", "ctranslate2", "--out", "out/model"), "exists already")
    refused(call("export", tiny_run, "--to", "onyx", "--out", "x"), "Invalid value for '--to'")
