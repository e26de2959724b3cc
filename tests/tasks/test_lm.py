"""lm: text in, the next token out; the state is carried, and resumed."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard import config
from regard.config import Decode
from regard.data.batches import TARGETS
from regard.runs import run
from regard.runs.trainer import train
from regard.system.errors import UserError
from regard.tasks import LanguageModelling, Request
from regard.verify import run_checks
from tests.command import refused

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


def test_outputs_that_are_cut_are_counted(settings) -> None:
    task = LanguageModelling.learn(settings())
    request = Request(["the", "the cat", ""], Decode(max_new_tokens=1))
    engine = run.make_engine(device="cpu")
    answer = task.predict(task.build_model().eval(), request, engine=engine)
    finished = [prediction.finished[0] for prediction in answer.predictions]
    assert (answer.counts.outputs, answer.counts.cut) == (3, finished.count(False))
    assert answer.counts.cut > 0


def test_it_learns_a_text_and_writes_it_on(settings, tmp_path: Path) -> None:
    train(settings("train.steps=250", "train.save_every=250"), tmp_path / "run")
    opened = run.load(tmp_path / "run")
    assert opened.predict(["the d", "the cat r"]) == ["the dog sat", "the cat ran"]
    (result,) = opened.predictions(["the cat"], decoding={"beam": 4, "n_best": 2})
    assert sorted(result.outputs) == ["the cat ran", "the cat sat"]
    metrics = opened.evaluate("test")["metrics"]
    assert metrics["loss"] < 0.5
    assert metrics.keys() == {"loss", "token_accuracy", "ppl", "bits_per_char", "bits_per_byte"}


@pytest.mark.pictures
def test_from_the_command_line_to_a_picture_of_its_gates(call, settings, tmp_path: Path) -> None:
    result = call("train", "lm.yaml", "--out", "run")
    assert result.code == 0, result.err
    assert "run/gates.png" in result.err
    assert call("predict", "run", stdin="the\n\n").out.count("\n") == 2
    assert call("evaluate", "run", "--json").json["metrics"]["bits_per_char"] > 0
    refused(call("evaluate", "run", "--beam", 3), "beam changes no metric of task=lm")
    refused(call("predict", "run", stdin="the\nx-ray\n"), "standard input:2: 'x' is not in the")
    held = [
        check.difference() <= check.tolerance for check in run_checks(run.load(tmp_path / "run"))
    ]
    assert len(held) > 5
    assert all(held)


def test_tokens_without_an_id_are_told_before_training(settings, tmp_path: Path) -> None:
    messages: list[str] = []
    train(settings("tokenizer.vocab_size=8"), tmp_path / "run", say=messages.append)
    assert any("data.train: " in one and "are not in the vocabulary" in one for one in messages)


def test_an_evaluation_on_what_is_trained_on_is_told(settings, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("the cat\n")
    for more, beginning in (
        ([], ["data.valid and data.test are the text that is trained on: metrics say nothing"]),
        (["data.test=other.txt"], ["data.valid is the text that is trained on"]),
        (["data.held_out=0.2"], []),
        (["data.valid=other.txt", "data.test=other.txt"], []),
    ):
        messages = LanguageModelling.learn(settings(*more)).warnings()
        assert len(messages) == len(beginning)
        assert all(map(str.startswith, messages, beginning))


def test_unknown_pieces_of_a_prompt_are_counted_and_unknown_characters_refused(settings) -> None:
    for kind in ("bpe", "chars"):
        task = LanguageModelling.learn(settings(f"tokenizer.kind={kind}"))
        model, request = task.build_model().eval(), Request(["the 日本 cat"], Decode())
        engine = run.make_engine(device="cpu")
        if kind == "chars":
            with pytest.raises(UserError, match="'日' is not in the vocabulary"):
                task.predict(model, request, engine=engine)
        else:
            answer = task.predict(model, request, engine=engine)
            assert 0 < answer.counts.unknown < answer.counts.tokens
            assert answer.predictions[0].outputs


def test_what_is_carried_is_float32_whatever_it_was_computed_in(settings, tmp_path) -> None:
    half = run.make_engine(device="cpu", precision="bf16")
    train(settings("train.steps=4"), tmp_path / "run", engine=half)
    carried = load_file(tmp_path / "run/checkpoints/step-4/carried.safetensors")
    assert {part.dtype for part in carried.values()} == {torch.float32}
    train(settings(), tmp_path / "run", resume=True, say=lambda sentence: None)


def test_an_odd_width_is_no_matter_where_there_is_one_direction(settings) -> None:
    assert settings("model.d_model=15").model.d_model == 15


def test_many_prompts_are_answered_in_order(settings, tmp_path: Path) -> None:
    made, _ = train(settings(), tmp_path / "run")
    prompts = ["the cat"[: 1 + number % 7] for number in range(300)]
    together = made.predict(prompts)
    assert together[:20] == [made.predict([prompt])[0] for prompt in prompts[:20]]
    assert all(text.startswith(prompt) for prompt, text in zip(prompts, together, strict=True))


def test_an_empty_prompt_begins_a_line(settings, tmp_path: Path) -> None:
    made, _ = train(settings(), tmp_path / "run")
    assert len(made.predict([""])) == 1


def test_bits_are_counted_by_character_whatever_a_token_is(settings) -> None:
    for kind in ("chars", "words"):
        task = LanguageModelling.learn(settings(f"tokenizer.kind={kind}"))
        model = task.build_model().eval()
        evaluation = task.evaluate(model, "test", engine=run.make_engine(device="cpu"))
        examples, metrics = evaluation.examples, evaluation.metrics
        bits = metrics["loss"] / torch.log(torch.tensor(2.0)).item() * examples
        assert metrics["bits_per_char"] == pytest.approx(bits / len(TEXT), rel=1e-4)
    assert examples == len(TEXT.split()) + TEXT.count("\n")


def test_the_state_is_carried_into_the_next_chunk_and_the_gradient_is_not(settings) -> None:
    task = LanguageModelling.learn(settings())
    model, carried = task.build_model(), {}
    first, second, *_ = task.batches().epoch(0)
    task.loss(model, first, carried)
    left = {name: part.clone() for name, part in carried.items()}
    assert left.keys() == {"state.0"}
    assert left["state.0"].abs().sum() > 0
    assert not left["state.0"].requires_grad
    went_on = task.loss(model.eval(), second, dict(carried))[TARGETS].loss
    assert went_on != task.loss(model, second, {})[TARGETS].loss
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


GPT = ("model.kind=gpt", "data.max_length=16", "model.d_model=32")


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT that has learned the text by heart."""
    folder = tmp_path_factory.mktemp("gpt")
    (folder / "text.txt").write_text(TEXT)
    (folder / "lm.yaml").write_text(YAML)
    steps = ("train.steps=200", "train.eval_every=200", "train.batch_size=8")
    more = (f"data.directory={folder}", "model.dropout=0", "train.save_every=200", *GPT, *steps)
    train(config.load(str(folder / "lm.yaml"), more), folder / "run")
    return folder / "run"


def test_a_gpt_learns_a_text_and_goes_on_past_its_context(gpt: Path) -> None:
    opened = run.load(gpt)
    assert opened.predict(["the d", "the cat r"]) == ["the dog sat", "the cat ran"]
    assert opened.evaluate("test")["metrics"]["loss"] < 0.5
    (text,) = opened.predict(["the cat"], max_new_tokens=60, strategy="sample", seed=3)
    assert len(text) < 60  # a line ends by itself


def test_a_gpt_in_a_run_holds_its_equalities(gpt: Path) -> None:
    held = [check.difference() <= check.tolerance for check in run_checks(run.load(gpt))]
    assert len(held) == 9
    assert all(held)
    assert run.load(gpt).trace("the cat").attention()


def test_a_prompt_longer_than_the_context_is_refused_or_cut_on_request(gpt: Path) -> None:
    opened, long = run.load(gpt), "the cat sat the cat sat the d"
    with pytest.raises(UserError, match=r"29 tokens, and this model reads at most 15 .*cut-prompt"):
        opened.predict([long])
    with pytest.raises(UserError, match="29 tokens"):
        opened.trace(long)
    (text,) = opened.predict([long], cut_prompt=True)
    assert text.startswith(long)  # what is not read is still part of the text
    assert text.removeprefix(long) == opened.predict([long[-15:]])[0].removeprefix(long[-15:])


def test_gpt_blocks_stopped_in_mid_epoch_resume_to_the_same_bits(settings, tmp_path: Path) -> None:
    train(settings(*GPT), tmp_path / "whole")
    train(settings(*GPT, "train.steps=4"), tmp_path / "part")
    train(settings(*GPT), tmp_path / "part", resume=True)
    for name in ("model.safetensors", "optimizer.safetensors"):
        last = Path("checkpoints") / "step-10" / name
        assert (tmp_path / "whole" / last).read_bytes() == (tmp_path / "part" / last).read_bytes()


def test_a_batch_of_a_gpt_is_shared_out_to_threads(settings, tmp_path: Path) -> None:
    train(settings(*GPT, "train.shares=2", "train.batch_size=16"), tmp_path / "run")
    with pytest.raises(UserError, match="a recurrent model carries a state"):
        settings("train.shares=2")


def test_a_transformer_is_refused(settings) -> None:
    with pytest.raises(UserError, match="transformer is not available for task=lm; it may be gpt"):
        settings("model.kind=transformer")
