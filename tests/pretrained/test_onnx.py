"""The exported graphs compute what the model does, at lengths that they were not traced with."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tokenizers as tokenizers_library
import torch
from jaxtyping import config

from regard import load
from regard.data.tokenizer import SpecialIds, Tokenizer
from regard.models import AttentionSeq2Seq, Transformer
from regard.pretrained.onnx import export
from regard.system.errors import UserError
from tests.command import refused

TOKENIZER = Tokenizer.train(["a b c d e f g h"], vocab_size=99)


@pytest.fixture(autouse=True)
def _shapes_unchecked():
    """While a graph is traced, a length is a symbol, not an int."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def session(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def compared(
    model: Transformer,
    folder: Path,
    source: torch.Tensor,
    steps: int,
    lengths: torch.Tensor | None = None,
) -> float:
    """The largest difference of any logit; the graphs use their own keys and values."""
    encoder, step = session(folder / "encoder.onnx"), session(folder / "step.onnx")
    description = json.loads((folder / "model.json").read_text())
    outputs = encoder.run(None, {"source": source.numpy()})
    memory = dict(zip(description["encoder"]["outputs"], outputs, strict=True))
    size = (description["layers"], len(source), description["heads"], 0, description["head_width"])
    keys = values = np.zeros(size, dtype=np.float32)
    tokens, difference = torch.full((len(source),), description["start"]), 0.0
    with torch.inference_mode():
        state = model.start(source, (source != 0).sum(dim=1) if lengths is None else lengths)
        for _ in range(steps):
            past = {"past_keys": keys, "past_values": values}
            logits, keys, values = step.run(None, {"tokens": tokens.numpy()} | past | memory)
            expected, state = model.step(tokens, state)
            difference = max(difference, float((torch.from_numpy(logits) - expected).abs().max()))
            tokens = expected.argmax(-1)
    return difference


@pytest.mark.parametrize(
    "options",
    [
        {"tie_embeddings": "all"},
        {"norm": "post", "positions": "rotary", "decoder_layers": 1},
        {"positions": "learned"},
        {
            "positions": "rotary",
            "n_kv_heads": 1,
            "d_head": 6,
            "norm_kind": "rms",
            "activation": "silu",
            "gated": True,
            "bias": False,
        },
    ],
    ids=["pre-sinusoidal", "post-rotary-shallow", "learned", "grouped-rms-gated"],
)
def test_logits_are_equal_at_two_lengths_and_two_batch_sizes(tmp_path: Path, options) -> None:
    size = len(TOKENIZER)
    model = Transformer(size, size, d_model=16, n_layers=2, n_heads=2, d_ff=24, **options).eval()
    export(model, (TOKENIZER, TOKENIZER), tmp_path / "model")
    short = torch.tensor([[4, 2]])
    long = torch.tensor([[4, 5, 6, 7, 8, 9, 2], [9, 2, 0, 0, 0, 0, 0], [5, 5, 5, 5, 2, 0, 0]])
    assert compared(model, tmp_path / "model", short, steps=2) < 1e-5
    assert compared(model, tmp_path / "model", long, steps=9) < 1e-5


@pytest.mark.parametrize(
    ("source_ids", "filler"),
    [(SpecialIds(padding=11, start=10, end=9, unknown=8), 11), (SpecialIds(end=9), 0)],
    ids=["other-ids", "no-padding"],
)
def test_graphs_use_the_special_ids_of_their_tokenizers(
    tmp_path: Path, source_ids: SpecialIds, filler: int
) -> None:
    size = len(TOKENIZER)
    model = Transformer(size, size, d_model=16, n_layers=1, n_heads=2, d_ff=24, padding=None).eval()
    tokenizers = (
        Tokenizer(TOKENIZER.json, source_ids),
        Tokenizer(TOKENIZER.json, SpecialIds(end=5, start=6)),
    )
    export(model, tokenizers, tmp_path / "model")
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    special = ("padding", "source_end", "start", "end", "never_generated")
    assert [description[name] for name in special] == [filler, 9, 6, 5, [6]]
    source = torch.tensor([[0, 1, 0, 2, 9], [3, 0, 9, filler, filler], [9, *[filler] * 4]])
    lengths = torch.tensor([5, 3, 1])  # id 0 is a token of the text
    assert compared(model, tmp_path / "model", source, steps=3, lengths=lengths) < 1e-5
    for name, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        file = tmp_path / "model" / f"{name}_tokenizer.json"
        assert tokenizers_library.Tokenizer.from_file(str(file)).encode("a b").ids == [4, 5]
        assert tokenizer.json != file.read_text()


def test_a_recurrent_model_is_refused(tmp_path: Path) -> None:
    model = AttentionSeq2Seq(9, 9, kind="gru", d_model=8)
    with pytest.raises(UserError, match="this run's model is recurrent"):
        export(model, (TOKENIZER, TOKENIZER), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_run_is_exported(call, tiny_run: Path, tmp_path: Path) -> None:
    result = call("export", tiny_run, "--to", "onnx", "--out", "onnx")
    assert (result.code, result.out) == (0, "")
    description = json.loads((tmp_path / "onnx" / "model.json").read_text())
    assert description["step"]["outputs"] == ["logits", "keys", "values"]
    assert description["never_generated"] == [0, 1, 3]
    run = load(tiny_run)
    source = torch.tensor([[*run.tokenizer.encode(["3 1 2"])[0], 2]])
    assert compared(run.model, tmp_path / "onnx", source, steps=3) < 1e-4
    refused(call("export", tiny_run, "--to", "onnx", "--out", "onnx"), "exists already")
