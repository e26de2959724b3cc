"""What is turned off adds nothing, and nothing else changes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.models import GPT, AttentionSeq2Seq, Bert, Transformer
from regard.nn import Trace
from regard.verify.within import perturbed

SIZES: dict[str, Any] = {"d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 24}
SOURCE, TARGET = torch.tensor([[4, 5, 6, 7]]), torch.tensor([[1, 8, 9]])


def transformer(**options: Any) -> Transformer:
    return perturbed(Transformer(12, 12, dropout=0.0, **SIZES | options)).eval()


def logits(model: Any, *without: str) -> Tensor:
    trace = Trace(without=without)
    with torch.inference_mode():
        output = model(SOURCE, TARGET, trace=trace)
    assert trace.switches.unmet == []
    return output


def test_without_a_head_is_without_its_columns_of_the_output_projection() -> None:
    model = transformer()
    switched = logits(model, "decoder.layers.1.cross_attention.heads.3")
    assert not torch.allclose(switched, logits(model))
    with torch.no_grad():
        model.decoder.layers[1].cross_attention.output.weight[:, 12:16] = 0
    torch.testing.assert_close(switched, logits(model))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_a_sublayer_is_without_its_output(norm: str) -> None:
    model = transformer(norm=norm)
    switched = logits(model, "encoder.layers.0.feed_forward")
    with torch.no_grad():
        outer = model.encoder.layers[0].feed_forward.outer
        outer.weight.zero_()
        outer.bias.zero_()
    torch.testing.assert_close(switched, logits(model))


def test_without_a_layer_is_the_model_without_that_layer() -> None:
    model = transformer()
    switched = logits(model, "encoder.layers.0", "decoder.layers.1")
    del model.encoder.layers[0], model.decoder.layers[1]
    torch.testing.assert_close(switched, logits(model))


@pytest.mark.parametrize("name", ["edges.2.1", "heads.3.edges.2.1"])
def test_without_an_edge_its_weight_is_0_and_its_row_still_sums_to_1(name: str) -> None:
    path = "decoder.layers.0.cross_attention"
    plain, trace = Trace(), Trace(without=[f"{path}.{name}"])
    model = transformer()
    for one in (plain, trace):
        model(SOURCE, TARGET, trace=one)
    before, after = plain[path]["weights"], trace[path]["weights"]
    heads = [3] if name.startswith("heads") else list(range(4))
    others = [head for head in range(4) if head not in heads]
    assert (after[0, heads, 2, 1] == 0).all()
    torch.testing.assert_close(after.sum(-1), torch.ones_like(after.sum(-1)))
    torch.testing.assert_close(after[0, heads, :2], before[0, heads, :2])
    torch.testing.assert_close(after[0, others], before[0, others])
    rest = before[0, heads, 2].clone()
    rest[:, 1] = 0
    torch.testing.assert_close(after[0, heads, 2], rest / rest.sum(-1, keepdim=True))


def test_a_recurrent_decoder_loses_the_edge_of_that_step_alone() -> None:
    model = perturbed(AttentionSeq2Seq(12, 12, d_model=16)).eval()
    path = "decoder.cross_attention"
    plain, trace = Trace(), Trace(without=[f"{path}.edges.1.2"])
    model(SOURCE, TARGET, trace=plain)
    model(SOURCE, TARGET, trace=trace)
    weights = trace[path]["weights"]
    assert trace.switches.unmet == []
    assert weights[0, 0, 1, 2] == 0
    assert weights[0, 0, 2, 2] > 0
    torch.testing.assert_close(weights[0, 0, 0], plain[path]["weights"][0, 0, 0])


def test_a_name_that_the_model_does_not_have_is_told() -> None:
    wrong = [
        "decoder.layers.7",
        "encoder.layers.0.cross_attention",
        "encoder.layers.0.self_attention.heads.4",
        "encoder.layers.0.self_attention.edges.4.0",
        "encoder.layers.0.self_attention.heads.x",
    ]
    trace = Trace(without=[*wrong, "encoder.layers.0.self_attention"])
    transformer()(SOURCE, TARGET, trace=trace)
    assert trace.switches.unmet == wrong


def test_axes_are_named_by_what_the_model_reads() -> None:
    trace = Trace()
    transformer()(SOURCE, TARGET, trace=trace)
    names = {path: axes["weights"][-2:] for path, axes in trace.axes.items() if "weights" in axes}
    assert {
        path.rpartition("layers.")[0] + path.rpartition(".")[2]: pair
        for path, pair in names.items()
    } == {
        "encoder.self_attention": ("source", "source"),
        "decoder.self_attention": ("target", "target"),
        "decoder.cross_attention": ("target", "source"),
    }
    assert trace.axes["encoder.layers.0.self_attention"]["query"] == (
        "batch",
        "head",
        "source",
        "width",
    )
    assert trace.axes["output"]["logits"] == ("batch", "target", "vocabulary")


@pytest.mark.parametrize("model", [GPT(12, **SIZES), Bert(12, **SIZES)], ids=["gpt", "bert"])
def test_every_axis_has_the_length_of_its_tokens(model: Any) -> None:
    trace, lengths = Trace(), {"source": 4, "target": 4, "batch": 1, "head": 4}
    model(SOURCE, trace=trace)
    for path, record in trace.records.items():
        for name, tensor in record.items():
            axes = trace.axes[path][name]
            assert len(axes) == tensor.dim()
            for axis, length in zip(axes, tensor.shape, strict=True):
                assert length in (1, lengths.get(axis, length)), (path, name)
