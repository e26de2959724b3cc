"""Fine-tuning: a task begins with the body of a trained encoder, and says what it took."""

from pathlib import Path

import pytest
import torch

from regard.runs.configuring import configure
from regard.runs.run import Run
from regard.runs.trainer import train
from regard.system.errors import UserError
from regard.system.tensors import read_tensors
from tests.command import refused
from tests.encoders import embedder_run

WORDS = {"good": ("fine", "day"), "bad": ("bank", "money")}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return embedder_run(tmp_path_factory.mktemp("encoder") / "run", n_layers=2)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe that trains an LSTM, and its data: a class for a text."""
    lines = [
        f"a {words[n % 2]} {n % 7} cat\t{label}"
        for n in range(24)
        for label, words in WORDS.items()
    ]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    path = tmp_path / "texts.yaml"
    path.write_text(
        f"task: classify\ndata: {{directory: {tmp_path}, train: texts.tsv, valid: texts.tsv, "
        "test: texts.tsv, text: text, label: label, max_length: 16}\n"
        "model: {kind: lstm, d_model: 16, n_layers: 1, pooling: mean}\n"
        "train: {steps: 4, batch_size: 8, eval_every: 4, save_every: 2, keep: 9, warmup: 1,\n"
        "  schedule: constant}\n"
    )
    return path


def tuned(recipe: Path, encoder: Path, out: Path, *more: str) -> tuple[Run, list[str]]:
    said: list[str] = []
    config = configure(str(recipe), [f"init={encoder}", *more])
    run, _ = train(config, out, say=said.append)
    return run, said


def began(out: Path) -> dict[str, torch.Tensor]:
    return read_tensors(out / "checkpoints/step-0/model.safetensors")[0]


def test_a_classifier_takes_size_tokenizer_and_weights_of_an_encoder(
    call, recipe: Path, encoder: Path, tmp_path: Path
) -> None:
    result = call("train", recipe, "--init", encoder, "--out", tmp_path / "run")
    assert result.code == 0, result.err
    weights, theirs = began(tmp_path / "run"), read_tensors(encoder / "model.safetensors")[0]
    assert weights.keys() - theirs.keys() == {"output.weight", "output.bias"}
    assert all(torch.equal(weights[name], theirs[name]) for name in theirs)
    tokenizers = [(run / "tokenizer.json").read_text() for run in (tmp_path / "run", encoder)]
    assert tokenizers[0] == tokenizers[1]
    count = len(theirs)
    taken = "body.embedding, body.encoder, body.pooler"
    assert f"Taken from {encoder}: {count} of {count + 2} weights: {taken}." in result.err
    assert "New, made from the seed: output." in result.err
    assert f"The tokenizer is that of {encoder}." in result.err


def test_what_is_set_beside_it_wins_and_what_it_changes_is_said(
    recipe: Path, encoder: Path, tmp_path: Path
) -> None:
    run, said = tuned(recipe, encoder, tmp_path / "run", "model.n_layers=1", "model.dropout=0.3")
    assert run.config.model.n_layers == 1
    assert run.config.model.dropout == 0.3
    assert run.config.model.pooling == "mean", "the head's pooling is the recipe's"
    assert any(
        sentence.startswith("Not used, of") and "body.encoder" in sentence for sentence in said
    )
    with pytest.raises(UserError, match=r"no weight of .* has the name and the shape"):
        tuned(recipe, encoder, tmp_path / "other", "model.d_model=16")


def test_another_tokenizer_than_that_of_the_weights_is_refused(
    recipe: Path, encoder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"belongs to its own tokenizer, of tokenizer\.kind="):
        configure(str(recipe), [f"init={encoder}", "tokenizer.kind=chars"])
    same = configure(str(recipe), [f"init={encoder}", "tokenizer.kind=wordpiece"])
    assert same.model.kind == "bert"
    blocks = configure(str(recipe), [f"init={encoder}:body.encoder", "tokenizer.kind=chars"])
    said: list[str] = []
    train(blocks, tmp_path / "blocks", say=said.append)
    assert any("New, made from the seed: body.embedding" in sentence for sentence in said)


def test_a_tokenizer_that_was_put_in_another_ones_place_is_refused(
    call, recipe: Path, tmp_path: Path
) -> None:
    texts = ["all other words than before", "and so another vocabulary"]
    broken = embedder_run(tmp_path / "broken")
    other = embedder_run(tmp_path / "other", texts=texts)
    (broken / "tokenizer.json").write_text((other / "tokenizer.json").read_text())
    refused(call("train", recipe, "--init", broken), "tokenizer")


def test_texts_longer_than_the_positions_are_refused(call, recipe: Path, encoder: Path) -> None:
    refused(
        call("train", recipe, "--init", encoder, "-s", "data.max_length=17"),
        "data.max_length=17 is more than model.max_positions=16",
    )


def test_top_layers_begin_from_the_seed(recipe: Path, encoder: Path, tmp_path: Path) -> None:
    _, said = tuned(recipe, encoder, tmp_path / "run", "train.reinit_layers=1")
    weights, theirs = began(tmp_path / "run"), read_tensors(encoder / "model.safetensors")[0]
    anew = ("body.encoder.layers.1.", "body.pooler.")
    for name, weight in theirs.items():
        assert torch.equal(weights[name], weight) != name.startswith(anew), name
    assert any("New, made from the seed: body.encoder" in sentence for sentence in said)
    with pytest.raises(UserError, match=r"reinit_layers=1 would do nothing"):
        configure(str(recipe), ["model.kind=bert", "train.reinit_layers=1"])


@pytest.mark.parametrize(
    "settings",
    [
        ["train.layer_decay=0.8", "train.reinit_layers=1", "train.lr_scale=output=10"],
        ["train.freeze=body"],
        ["train.contrastive=true", "train.lr_scale=output=100"],
    ],
    ids=["layer decay and reinit", "frozen", "contrastive"],
)
def test_fine_tuning_resumes_to_the_same_bits(
    recipe: Path, encoder: Path, tmp_path: Path, settings: list[str]
) -> None:
    tuned(recipe, encoder, tmp_path / "whole", *settings)
    tuned(recipe, encoder, tmp_path / "parts", *settings, "train.steps=2")
    longer = configure(str(recipe), [f"init={encoder}", *settings])
    train(longer, tmp_path / "parts", resume=True, say=lambda sentence: None)
    last = "checkpoints/step-4"
    for name in ("model", "optimizer"):
        whole, parts = (tmp_path / run / last / f"{name}.safetensors" for run in ("whole", "parts"))
        assert whole.read_bytes() == parts.read_bytes()


def test_a_frozen_body_keeps_its_bits(recipe: Path, encoder: Path, tmp_path: Path) -> None:
    run, _ = tuned(recipe, encoder, tmp_path / "run", "train.freeze=body")
    weights, theirs = (
        dict(run.model.named_parameters()),
        read_tensors(encoder / "model.safetensors"),
    )
    assert all(torch.equal(weights[name], weight) for name, weight in theirs[0].items())


def test_the_body_learns_by_contrast_alone_and_the_head_by_the_classes_alone(
    recipe: Path, encoder: Path, tmp_path: Path
) -> None:
    run, _ = tuned(recipe, encoder, tmp_path / "run", "train.contrastive=true", "model.dropout=0")
    model, task = run.model, run.task
    (batch, *_) = task.batches().epoch(0)
    gradients = {}
    for name in ("contrastive", "plain"):
        model.zero_grad()
        task.config.training.contrastive = name == "contrastive"
        task.loss(model, batch, {})["targets"].loss.backward()
        gradients[name] = {
            key: weight.grad.clone()
            for key, weight in model.named_parameters()
            if weight.grad is not None
        }
    both, plain = gradients["contrastive"], gradients["plain"]
    torch.testing.assert_close(both["output.weight"], plain["output.weight"])
    name = "body.encoder.layers.0.feed_forward.inner.weight"
    assert not torch.allclose(both[name], plain[name])


def test_contrast_tells_classes_apart(recipe: Path, encoder: Path, tmp_path: Path) -> None:
    settings = ["train.contrastive=true", "train.steps=60", "train.eval_every=60", "train.lr=0.01"]
    run, _ = tuned(recipe, encoder, tmp_path / "run", *settings, "model.dropout=0")
    assert run.evaluate("test")["metrics"]["accuracy"] == 1.0


def test_contrast_without_a_body_is_refused(recipe: Path) -> None:
    with pytest.raises(UserError, match=r"train\.contrastive"):
        configure(str(recipe), ["train.contrastive=true"])
