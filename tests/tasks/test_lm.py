"""lm: text in, the next token out; the state is carried, and resumed."""

from pathlib import Path

import pytest
import torch

from regard import config, run
from regard.errors import UserError
from regard.tasks import LanguageModelling
from regard.train import train

TEXT = "the cat sat\nthe dog sat\n\nthe cat ran\n" * 6
YAML = """
task: lm
data: {train: text.txt, valid: text.txt, test: text.txt, max_length: 8}
tokenizer: {kind: chars}
model: {kind: gru, d_model: 24, n_layers: 2, dropout: 0.1}
train: {steps: 10, batch_size: 3, lr: 0.01, warmup: 0, eval_every: 5, save_every: 1, keep: 20}
decode: {max_new_tokens: 12}
"""


@pytest.fixture
def settings(tmp_path: Path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "lm.yaml").write_text(YAML)

    def load(*more: str) -> config.Config:
        return config.load(str(tmp_path / "lm.yaml"), [f"data.directory={tmp_path}", *more])

    return load


def test_it_learns_a_text_and_writes_it_on(settings, tmp_path: Path) -> None:
    train(settings("train.steps=250", "train.save_every=250"), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    assert opened.predict(["the d", "the cat r"]) == ["the dog sat", "the cat ran"]
    (found,) = opened.predictions(["the cat"], decoding={"beam": 4, "n_best": 2})
    assert sorted(found.outputs) == ["the cat ran", "the cat sat"]
    metrics = opened.evaluate("test")["metrics"]
    assert metrics["loss"] < 0.5
    assert metrics.keys() == {"loss", "token_accuracy", "ppl", "bits_per_char"}


def test_an_empty_prompt_begins_a_line(settings, tmp_path: Path) -> None:
    made, _ = train(settings(), tmp_path / "run")
    assert len(made.predict([""])) == 1


def test_bits_are_counted_by_character_whatever_a_token_is(settings) -> None:
    for kind in ("chars", "words"):
        task = LanguageModelling(settings(f"tokenizer.kind={kind}"))
        model = task.build_model().eval()
        examples, metrics = task.evaluate(model, "test", engine=run.make_engine(device="cpu"))
        bits = metrics["loss"] / torch.log(torch.tensor(2.0)).item() * examples
        assert metrics["bits_per_char"] == pytest.approx(bits / len(TEXT), rel=1e-4)
    assert examples == len(TEXT.split()) + TEXT.count("\n")


def test_the_state_is_carried_into_the_next_stretch_and_the_gradient_is_not(settings) -> None:
    task = LanguageModelling(settings())
    model, carried = task.build_model(), {}
    first, second, *_ = task.batches().epoch(0)
    task.loss(model, first, carried)
    left = {name: part.clone() for name, part in carried.items()}
    assert left.keys() == {"state.0"}
    assert left["state.0"].abs().sum() > 0
    assert not left["state.0"].requires_grad
    went_on = task.loss(model.eval(), second, dict(carried)).loss
    assert went_on != task.loss(model, second, {}).loss
    fresh: dict = {}
    task.loss(model, first, fresh)
    again: dict = dict(carried)
    task.loss(model, first, again)  # the text begins: nothing is carried into it
    assert again["state.0"].equal(fresh["state.0"])


def test_a_run_stopped_in_mid_text_resumes_to_the_same_bits(settings, tmp_path: Path) -> None:
    train(settings(), tmp_path / "whole")
    train(settings("train.steps=4"), tmp_path / "part")
    newest = tmp_path / "part" / "checkpoints" / "step-4"
    assert (newest / "carried.safetensors").stat().st_size > 200
    train(settings(), tmp_path / "part", resume=True)
    for name in ("model.safetensors", "carried.safetensors", "optimizer.safetensors"):
        last = Path("checkpoints") / "step-10" / name
        assert (tmp_path / "whole" / last).read_bytes() == (tmp_path / "part" / last).read_bytes()


def test_a_transformer_is_refused(settings) -> None:
    with pytest.raises(UserError, match="transformer is not made for task=lm; it may be rnn"):
        settings("model.kind=transformer")
