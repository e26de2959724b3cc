"""The recurrent encoder-decoder; its equalities stand in tests/equalities."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard import config
from regard.models import AttentionSeq2Seq
from regard.nn import Trace
from regard.nn.classic_attention import KINDS
from regard.runs import run
from regard.runs.trainer import train
from tests.conftest import TINY

SOURCE = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])
LENGTHS = torch.tensor([4, 2])
TARGET = torch.tensor([[1, 5, 6], [1, 8, 0]])


def model(**options) -> AttentionSeq2Seq:
    return AttentionSeq2Seq(9, 9, **({"d_model": 8} | options))


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("attention", ["none", *KINDS])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_every_cell_and_attention_trains_every_weight(kind, attention, bidirectional) -> None:
    made = model(kind=kind, attention=attention, bidirectional=bidirectional, n_layers=2)
    logits = made(SOURCE, TARGET, source_lengths=LENGTHS)
    assert logits.shape == (2, 3, 9)
    logits.square().sum().backward()
    assert all(0 < p.grad.abs().sum() < torch.inf for p in made.parameters())


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("attention", ["none", *KINDS])
def test_what_attention_made_of_a_step_is_fed_to_the_next(kind: str, attention: str) -> None:
    made = model(kind=kind, attention=attention).eval()
    state = made.start(SOURCE, LENGTHS)
    fed = replace(state, fed=torch.randn_like(state.fed))
    logits, others = (made.step(TARGET[:, 0], one)[0] for one in (state, fed))
    assert logits.equal(others) == (attention == "none")


@pytest.mark.parametrize("attention", ["none", "bahdanau"])
def test_what_stands_past_a_source_length_changes_nothing(attention: str) -> None:
    made = model(attention=attention, padding=None).eval()
    other = torch.tensor([[4, 5, 6, 2], [7, 2, 8, 3]])
    torch.testing.assert_close(
        made(SOURCE, TARGET, source_lengths=LENGTHS), made(other, TARGET, source_lengths=LENGTHS)
    )
    states = (made.start(source, LENGTHS) for source in (SOURCE, other))
    logits, others = (made.step(TARGET[:, 0], state)[0] for state in states)
    torch.testing.assert_close(logits, others)
    whole = made(SOURCE, TARGET)  # without lengths, all tokens are real, 0 among them
    assert not torch.allclose(whole[1], made(SOURCE, TARGET, source_lengths=LENGTHS)[1])


def test_ties_share_one_weight() -> None:
    sizes = [
        sum(p.numel() for p in model(tie_embeddings=tie).parameters())
        for tie in ("none", "output", "all")
    ]
    assert sizes == [sizes[0], sizes[0] - 72, sizes[0] - 144]
    with pytest.raises(ValueError, match="9 source and 10 target"):
        AttentionSeq2Seq(9, 10, tie_embeddings="all")


def test_without_teacher_forcing_the_decoder_reads_its_own_tokens() -> None:
    made = model(teacher_forcing=0.0, dropout=0.0)
    other = TARGET.clone()
    other[:, 1:] = 3  # what follows <s> is not read
    made.train()
    assert made(SOURCE, TARGET, source_lengths=LENGTHS).equal(
        made(SOURCE, other, source_lengths=LENGTHS)
    )
    made.eval()  # scoring a given target always reads it
    assert not made(SOURCE, TARGET, source_lengths=LENGTHS).equal(
        made(SOURCE, other, source_lengths=LENGTHS)
    )


def test_a_trace_shows_gates_and_attention_over_time() -> None:
    made, trace = model(kind="lstm", n_layers=2).eval(), Trace()
    made(SOURCE, TARGET, source_lengths=LENGTHS, trace=trace)
    assert trace["encoder.layers.1.backward"]["forget"].shape == (2, 4, 4)
    assert trace["decoder.layers.0.forward"]["input"].shape == (2, 3, 8)
    weights = trace.attention()["decoder.cross_attention"]
    assert weights.shape == (2, 1, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 3))
    assert weights[1, 0, :, 2:].abs().sum() == 0
    assert trace.shapes()["output.logits"] == (2, 3, 9)


def test_an_odd_width_is_refused_with_two_directions() -> None:
    with pytest.raises(ValueError, match="d_model=9 is odd"):
        model(d_model=9)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_the_same_loop_trains_it_and_the_same_run_opens_it(tmp_path: Path, kind: str) -> None:
    settings = [
        *TINY,
        f"model.kind={kind}",
        "model.attention=luong-general",
        "train.teacher_forcing=0.5",
    ]
    train(config.load("sort", settings), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    assert len(opened.predict(["3 1 2", "5 4"], beam=3)) == 2
    assert "decoder.cross_attention" in opened.trace("3 1 2").attention()


@pytest.mark.parametrize(("attention", "pictures"), [("none", 2), ("bahdanau", 3)])
def test_a_run_is_drawn_with_what_it_has(tmp_path: Path, attention: str, pictures: int) -> None:
    from regard import look

    settings = [*TINY, "model.kind=gru", f"model.attention={attention}"]
    made, _ = train(config.load("copy", settings), tmp_path / "run")
    assert len(look.draw(made)) == pictures


@pytest.mark.parametrize("attention", ["none", "bahdanau"])
def test_logits_have_a_bias_that_is_learned(attention: str) -> None:
    made = model(kind="gru", attention=attention, output_bias=True).eval()
    logits = made(SOURCE, TARGET, source_lengths=LENGTHS)
    logits.square().sum().backward()
    assert all(0 < p.grad.abs().sum() < torch.inf for p in made.parameters())
    with torch.no_grad():
        made.output.bias += torch.arange(9.0)
    shifted = made(SOURCE, TARGET, source_lengths=LENGTHS)
    torch.testing.assert_close(shifted, logits + torch.arange(9.0))


def test_without_a_bridge_the_decoder_begins_in_the_encoders_last_state() -> None:
    made = model(kind="gru", attention="none", bidirectional=False, bridge=False).eval()
    _, (last,) = made.encoder(made.source_embedding(SOURCE), LENGTHS)
    (first,) = made.start(SOURCE, LENGTHS).cells
    torch.testing.assert_close(first, last.reshape(first.shape), rtol=0, atol=0)
